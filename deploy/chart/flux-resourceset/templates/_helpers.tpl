{{/* The prefix of all names, limited to the length of a label. */}}
{{- define "flux-resourceset.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* The labels that never change, which select the pods. */}}
{{- define "flux-resourceset.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "flux-resourceset.labels" -}}
{{ include "flux-resourceset.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: flux-resourceset
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- end -}}

{{- define "flux-resourceset.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "flux-resourceset.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "flux-resourceset.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{/* Not empty if there are tokens of the environment. Without them, callers are known by OpenID Connect, by certificates, or as identities. */}}
{{- define "flux-resourceset.tokens" -}}
{{- if or .Values.tokens.existingSecret .Values.tokens.read .Values.tokens.write -}}true{{- end -}}
{{- end -}}

{{- define "flux-resourceset.tokensSecret" -}}
{{ .Values.tokens.existingSecret | default (printf "%s-tokens" (include "flux-resourceset.fullname" .)) }}
{{- end -}}

{{- define "flux-resourceset.databaseSecret" -}}
{{ .Values.store.postgres.existingSecret | default (printf "%s-database" (include "flux-resourceset.fullname" .)) }}
{{- end -}}

{{- define "flux-resourceset.claim" -}}
{{ .Values.store.sqlite.existingClaim | default (printf "%s-data" (include "flux-resourceset.fullname" .)) }}
{{- end -}}

{{- define "flux-resourceset.backupClaim" -}}
{{ .Values.backup.existingClaim | default (printf "%s-backups" (include "flux-resourceset.fullname" .)) }}
{{- end -}}

{{/* Not empty if clients may show certificates. */}}
{{- define "flux-resourceset.clientCA" -}}
{{ .Values.tls.clientCA.existingConfigMap }}{{ .Values.tls.clientCA.existingSecret }}
{{- end -}}

{{- define "flux-resourceset.scheme" -}}
{{ ternary "https" "http" (ne .Values.tls.existingSecret "") }}
{{- end -}}

{{/* The roles that have their own pods. */}}
{{- define "flux-resourceset.roles" -}}
{{- if .Values.read.enabled }}read {{ end }}crud
{{- end -}}

{{/* Refuses invalid combinations of values before anything is installed. */}}
{{- define "flux-resourceset.check" -}}
{{- $values := .Values -}}
{{- if eq $values.store.backend "sqlite" -}}
{{- $read := ternary (ternary $values.read.autoscaling.maxReplicas $values.read.replicas $values.read.autoscaling.enabled | int) 0 $values.read.enabled -}}
{{- $pods := add $read (int $values.crud.replicas) -}}
{{- if and (gt $pods 1) (not $values.store.sqlite.shareNode) -}}
{{- fail (printf "\n\nSQLite's file is for one host, and %d pods would share it (read and crud together).\nPut them on one node with store.sqlite.shareNode=true, run one pod (read.enabled=false, crud.replicas=1),\nor use store.backend=postgres." $pods) -}}
{{- end -}}
{{- else if not (or $values.store.postgres.existingSecret $values.store.postgres.writeURL) -}}
{{- fail "\n\nstore.backend=postgres needs store.postgres.existingSecret (a Secret with the URLs), or store.postgres.writeURL." -}}
{{- end -}}
{{- if and $values.store.postgres.existingSecret (or $values.store.postgres.readURL $values.store.postgres.writeURL) -}}
{{- fail "\n\nSet store.postgres.existingSecret, or store.postgres.readURL and writeURL, not both." -}}
{{- end -}}
{{- if and (not $values.read.enabled) (or $values.ingress.read.enabled $values.httpRoute.read.enabled $values.read.autoscaling.enabled) -}}
{{- fail "\n\nread.enabled=false leaves nothing for ingress.read, httpRoute.read and read.autoscaling: use those of crud." -}}
{{- end -}}
{{- if and $values.prometheusRule.enabled (not $values.serviceMonitor.enabled) -}}
{{- fail "\n\nprometheusRule needs serviceMonitor.enabled=true: its rules name the job that the ServiceMonitor gives." -}}
{{- end -}}
{{- if and (include "flux-resourceset.clientCA" .) (not $values.tls.existingSecret) -}}
{{- fail "\n\ntls.clientCA needs tls.existingSecret: certificates of clients are part of TLS." -}}
{{- end -}}
{{- if and $values.tls.clientCA.existingConfigMap $values.tls.clientCA.existingSecret -}}
{{- fail "\n\nSet tls.clientCA.existingConfigMap or tls.clientCA.existingSecret, not both." -}}
{{- end -}}
{{- if $values.tokens.existingSecret -}}
{{- if or $values.tokens.read $values.tokens.write -}}
{{- fail "\n\nSet tokens.existingSecret, or tokens.read and tokens.write, not both." -}}
{{- end -}}
{{- else if or $values.tokens.read $values.tokens.write (not (or $values.oidc.issuer (include "flux-resourceset.clientCA" .))) -}}
{{- $_ := required "\n\ntokens.read is required: what clusters and readers send (openssl rand -hex 32), or tokens.existingSecret." (trim $values.tokens.read) -}}
{{- $_ := required "\n\ntokens.write is required: what operators and CI send (openssl rand -hex 32), or tokens.existingSecret." (trim $values.tokens.write) -}}
{{- if eq (trim $values.tokens.read) (trim $values.tokens.write) -}}
{{- fail "\n\ntokens.read and tokens.write are the same: every cluster could write." -}}
{{- end -}}
{{- end -}}
{{- end -}}
