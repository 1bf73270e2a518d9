//! The API types of Flux Operator, which decide what a document may contain.

use gotemplate::{
    json::{Field, Shape, Struct},
    time,
};

/// `ResourceSet`.
pub(crate) static RESOURCE_SET: Shape = structure(&Struct {
    package: "v1",
    name: "ResourceSet",
    fields: &[
        Field::embedded("kind", &STRING, "TypeMeta"),
        Field::embedded("apiVersion", &STRING, "TypeMeta"),
        Field::new("metadata", &OBJECT_META),
        Field::new("spec", &RESOURCE_SET_SPEC),
        Field::new("status", &RESOURCE_SET_STATUS),
    ],
});

/// `ResourceSetInputProvider`.
pub(crate) static INPUT_PROVIDER: Shape = structure(&Struct {
    package: "v1",
    name: "ResourceSetInputProvider",
    fields: &[
        Field::embedded("kind", &STRING, "TypeMeta"),
        Field::embedded("apiVersion", &STRING, "TypeMeta"),
        Field::new("metadata", &OBJECT_META),
        Field::new("spec", &INPUT_PROVIDER_SPEC),
        Field::new("status", &INPUT_PROVIDER_STATUS),
    ],
});

/// `[]ResourceSetInput`.
pub(crate) static INPUTS: Shape = Shape::List {
    go: "[]v1.ResourceSetInput",
    element: &INPUT,
};

static INPUT: Shape = Shape::Map {
    go: "v1.ResourceSetInput",
    value: &Shape::Pointer(&Shape::Raw),
};

const fn structure(structure: &'static Struct) -> Shape {
    Shape::Struct(structure)
}

/// `metav1.Duration`.
static DURATION: Shape = Shape::Parsed {
    go: "v1.Duration",
    check: |text| time::parse_duration(text.unwrap_or_default().as_bytes()).map(|_| ()),
};

/// `metav1.Time`, which may be null.
static TIME: Shape = Shape::Parsed {
    go: "v1.Time",
    check: |text| match text {
        Some(text) => time::parse(b"2006-01-02T15:04:05Z07:00", text.as_bytes()).map(|_| ()),
        None => Ok(()),
    },
};

static STRING: Shape = Shape::Text("string");
static UID: Shape = Shape::Text("types.UID");
static INT64: Shape = Shape::Int("int64");
static INT: Shape = Shape::Int("int");
static STRINGS: Shape = Shape::List {
    go: "[]string",
    element: &STRING,
};
static STRING_MAP: Shape = Shape::Map {
    go: "map[string]string",
    value: &STRING,
};

static OBJECT_META: Shape = structure(&Struct {
    package: "v1",
    name: "ObjectMeta",
    fields: &[
        Field::new("name", &STRING),
        Field::new("generateName", &STRING),
        Field::new("namespace", &STRING),
        Field::new("selfLink", &STRING),
        Field::new("uid", &UID),
        Field::new("resourceVersion", &STRING),
        Field::new("generation", &INT64),
        Field::new("creationTimestamp", &TIME),
        Field::new("deletionTimestamp", &Shape::Pointer(&TIME)),
        Field::new("deletionGracePeriodSeconds", &Shape::Pointer(&INT64)),
        Field::new("labels", &STRING_MAP),
        Field::new("annotations", &STRING_MAP),
        Field::new(
            "ownerReferences",
            &Shape::List {
                go: "[]v1.OwnerReference",
                element: &OWNER_REFERENCE,
            },
        ),
        Field::new("finalizers", &STRINGS),
        Field::new(
            "managedFields",
            &Shape::List {
                go: "[]v1.ManagedFieldsEntry",
                element: &MANAGED_FIELDS,
            },
        ),
    ],
});

static OWNER_REFERENCE: Shape = structure(&Struct {
    package: "v1",
    name: "OwnerReference",
    fields: &[
        Field::new("apiVersion", &STRING),
        Field::new("kind", &STRING),
        Field::new("name", &STRING),
        Field::new("uid", &UID),
        Field::new("controller", &Shape::Pointer(&Shape::Bool)),
        Field::new("blockOwnerDeletion", &Shape::Pointer(&Shape::Bool)),
    ],
});

static MANAGED_FIELDS: Shape = structure(&Struct {
    package: "v1",
    name: "ManagedFieldsEntry",
    fields: &[
        Field::new("manager", &STRING),
        Field::new("operation", &Shape::Text("v1.ManagedFieldsOperationType")),
        Field::new("apiVersion", &STRING),
        Field::new("time", &Shape::Pointer(&TIME)),
        Field::new("fieldsType", &STRING),
        Field::new("fieldsV1", &Shape::Pointer(&Shape::Raw)),
        Field::new("subresource", &STRING),
    ],
});

static RESOURCE_SET_SPEC: Shape = structure(&Struct {
    package: "v1",
    name: "ResourceSetSpec",
    fields: &[
        Field::new("commonMetadata", &Shape::Pointer(&COMMON_METADATA)),
        Field::new("inputStrategy", &Shape::Pointer(&INPUT_STRATEGY)),
        Field::new("inputs", &INPUTS),
        Field::new(
            "inputsFrom",
            &Shape::List {
                go: "[]v1.InputProviderReference",
                element: &PROVIDER_REFERENCE,
            },
        ),
        Field::new("resources", &RESOURCES),
        Field::new("resourcesTemplate", &STRING),
        Field::new(
            "steps",
            &Shape::List {
                go: "[]v1.ResourceSetStep",
                element: &STEP,
            },
        ),
        Field::new(
            "dependsOn",
            &Shape::List {
                go: "[]v1.Dependency",
                element: &DEPENDENCY,
            },
        ),
        Field::new("serviceAccountName", &STRING),
        Field::new("wait", &Shape::Bool),
    ],
});

static RESOURCES: Shape = Shape::List {
    go: "[]*v1.JSON",
    element: &Shape::Pointer(&Shape::Raw),
};

static COMMON_METADATA: Shape = structure(&Struct {
    package: "v1",
    name: "CommonMetadata",
    fields: &[
        Field::new("annotations", &STRING_MAP),
        Field::new("labels", &STRING_MAP),
    ],
});

static INPUT_STRATEGY: Shape = structure(&Struct {
    package: "v1",
    name: "InputStrategySpec",
    fields: &[
        Field::new("name", &STRING),
        Field::new("includeEmptyProviders", &Shape::Bool),
    ],
});

static STEP: Shape = structure(&Struct {
    package: "v1",
    name: "ResourceSetStep",
    fields: &[
        Field::new("name", &STRING),
        Field::new("resources", &RESOURCES),
        Field::new("resourcesTemplate", &STRING),
        Field::new("timeout", &Shape::Pointer(&DURATION)),
    ],
});

static PROVIDER_REFERENCE: Shape = structure(&Struct {
    package: "v1",
    name: "InputProviderReference",
    fields: &[
        Field::new("apiVersion", &STRING),
        Field::new("kind", &STRING),
        Field::new("name", &STRING),
        Field::new("selector", &Shape::Pointer(&LABEL_SELECTOR)),
    ],
});

static LABEL_SELECTOR: Shape = structure(&Struct {
    package: "v1",
    name: "LabelSelector",
    fields: &[
        Field::new("matchLabels", &STRING_MAP),
        Field::new("matchExpressions", &MATCH_EXPRESSIONS),
    ],
});

static MATCH_EXPRESSIONS: Shape = Shape::List {
    go: "[]v1.LabelSelectorRequirement",
    element: &LABEL_SELECTOR_REQUIREMENT,
};

static LABEL_SELECTOR_REQUIREMENT: Shape = structure(&Struct {
    package: "v1",
    name: "LabelSelectorRequirement",
    fields: &[
        Field::new("key", &STRING),
        Field::new("operator", &Shape::Text("v1.LabelSelectorOperator")),
        Field::new("values", &STRINGS),
    ],
});

static DEPENDENCY: Shape = structure(&Struct {
    package: "v1",
    name: "Dependency",
    fields: &[
        Field::new("apiVersion", &STRING),
        Field::new("kind", &STRING),
        Field::new("name", &STRING),
        Field::new("namespace", &STRING),
        Field::new("ready", &Shape::Bool),
        Field::new("readyExpr", &STRING),
    ],
});

static RESOURCE_SET_STATUS: Shape = structure(&Struct {
    package: "v1",
    name: "ResourceSetStatus",
    fields: &[
        Field::embedded("lastHandledReconcileAt", &STRING, "ReconcileRequestStatus"),
        Field::new("conditions", &CONDITIONS),
        Field::new("inventory", &Shape::Pointer(&INVENTORY)),
        Field::new("lastAppliedRevision", &STRING),
        Field::new("externalChecksumRefs", &STRINGS),
        Field::new(
            "history",
            &Shape::List {
                go: "v1.History",
                element: &SNAPSHOT,
            },
        ),
    ],
});

static CONDITIONS: Shape = Shape::List {
    go: "[]v1.Condition",
    element: &CONDITION,
};

static CONDITION: Shape = structure(&Struct {
    package: "v1",
    name: "Condition",
    fields: &[
        Field::new("type", &STRING),
        Field::new("status", &Shape::Text("v1.ConditionStatus")),
        Field::new("observedGeneration", &INT64),
        Field::new("lastTransitionTime", &TIME),
        Field::new("reason", &STRING),
        Field::new("message", &STRING),
    ],
});

static INVENTORY: Shape = structure(&Struct {
    package: "v1",
    name: "ResourceInventory",
    fields: &[Field::new(
        "entries",
        &Shape::List {
            go: "[]v1.ResourceRef",
            element: &RESOURCE_REF,
        },
    )],
});

static RESOURCE_REF: Shape = structure(&Struct {
    package: "v1",
    name: "ResourceRef",
    fields: &[Field::new("id", &STRING), Field::new("v", &STRING)],
});

static SNAPSHOT: Shape = structure(&Struct {
    package: "v1",
    name: "Snapshot",
    fields: &[
        Field::new("digest", &STRING),
        Field::new("firstReconciled", &TIME),
        Field::new("lastReconciled", &TIME),
        Field::new("lastReconciledDuration", &DURATION),
        Field::new("lastReconciledStatus", &STRING),
        Field::new("totalReconciliations", &INT64),
        Field::new("metadata", &STRING_MAP),
    ],
});

static INPUT_PROVIDER_SPEC: Shape = structure(&Struct {
    package: "v1",
    name: "ResourceSetInputProviderSpec",
    fields: &[
        Field::new("type", &STRING),
        Field::new("url", &STRING),
        Field::new("serviceAccountName", &STRING),
        Field::new("secretRef", &Shape::Pointer(&LOCAL_REFERENCE)),
        Field::new("certSecretRef", &Shape::Pointer(&LOCAL_REFERENCE)),
        Field::new("insecure", &Shape::Bool),
        Field::new("defaultValues", &INPUT),
        Field::new("filter", &Shape::Pointer(&FILTER)),
        Field::new("skip", &Shape::Pointer(&SKIP)),
        Field::new(
            "schedule",
            &Shape::List {
                go: "[]v1.Schedule",
                element: &SCHEDULE,
            },
        ),
        Field::new(
            "selectors",
            &Shape::List {
                go: "[]v1.ExternalArtifactSelector",
                element: &ARTIFACT_SELECTOR,
            },
        ),
    ],
});

static LOCAL_REFERENCE: Shape = structure(&Struct {
    package: "meta",
    name: "LocalObjectReference",
    fields: &[Field::new("name", &STRING)],
});

static FILTER: Shape = structure(&Struct {
    package: "v1",
    name: "ResourceSetInputFilter",
    fields: &[
        Field::new("includeBranch", &STRING),
        Field::new("excludeBranch", &STRING),
        Field::new("includeTag", &STRING),
        Field::new("excludeTag", &STRING),
        Field::new("includeEnvironment", &STRING),
        Field::new("excludeEnvironment", &STRING),
        Field::new("labels", &STRINGS),
        Field::new("limit", &INT),
        Field::new("semver", &STRING),
    ],
});

static SKIP: Shape = structure(&Struct {
    package: "v1",
    name: "ResourceSetInputSkip",
    fields: &[Field::new("labels", &STRINGS)],
});

static SCHEDULE: Shape = structure(&Struct {
    package: "v1",
    name: "Schedule",
    fields: &[
        Field::new("cron", &STRING),
        Field::new("timeZone", &STRING),
        Field::new("window", &DURATION),
    ],
});

static ARTIFACT_SELECTOR: Shape = structure(&Struct {
    package: "v1",
    name: "ExternalArtifactSelector",
    fields: &[
        Field::embedded("matchLabels", &STRING_MAP, "LabelSelector"),
        Field::embedded("matchExpressions", &MATCH_EXPRESSIONS, "LabelSelector"),
        Field::new("name", &STRING),
        Field::new("namespace", &STRING),
    ],
});

static INPUT_PROVIDER_STATUS: Shape = structure(&Struct {
    package: "v1",
    name: "ResourceSetInputProviderStatus",
    fields: &[
        Field::embedded("lastHandledReconcileAt", &STRING, "ReconcileRequestStatus"),
        Field::embedded("lastHandledForceAt", &STRING, "ForceRequestStatus"),
        Field::new("conditions", &CONDITIONS),
        Field::new("exportedInputs", &INPUTS),
        Field::new("lastExportedRevision", &STRING),
        Field::new("nextSchedule", &Shape::Pointer(&NEXT_SCHEDULE)),
    ],
});

static NEXT_SCHEDULE: Shape = structure(&Struct {
    package: "v1",
    name: "NextSchedule",
    fields: &[
        Field::embedded("cron", &STRING, "Schedule"),
        Field::embedded("timeZone", &STRING, "Schedule"),
        Field::embedded("window", &DURATION, "Schedule"),
        Field::new("when", &TIME),
    ],
});
