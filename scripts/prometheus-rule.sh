#!/usr/bin/env bash
# prometheus-rule.sh FILE: prints the rules of a file of Prometheus as a PrometheusRule, for the Prometheus Operator.
set -euo pipefail
cat <<EOT
# For the Prometheus Operator. Some installations require an additional label (release: …).
# Generated from $1 by \`make generate\`.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: flux-api
spec:
EOT
sed -e '/^#/d' -e 's/^/  /' -e 's/^ *$//' "$1"
