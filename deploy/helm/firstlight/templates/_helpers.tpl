{{- define "firstlight.name" -}}
{{- if contains "firstlight" .Release.Name }}{{ .Release.Name | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "%s-firstlight" .Release.Name | trunc 50 | trimSuffix "-" }}{{ end }}
{{- end }}
{{- define "firstlight.selector" -}}
app.kubernetes.io/name: firstlight
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}
{{- define "firstlight.labels" -}}
{{ include "firstlight.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}
{{- define "firstlight.document" -}}
{{- $config := deepCopy .Values.config }}
{{- if .Values.valkey.enabled }}{{ $_ := set $config "replicas" (dict "url" (dict "env" "FIRSTLIGHT_REPLICAS_URL")) }}{{ end }}
{{- toYaml $config }}
{{- end }}
{{- /* Running and waiting requests of a model: those that its engines report, and those that wait in the gateways. */}}
{{- define "firstlight.poolRequests" -}}
{{- $model := printf "{model=%s}" (. | quote) -}}
(sum(max by (engine) (firstlight_engine_reported_num_requests_running{{ $model }} + firstlight_engine_reported_num_requests_waiting{{ $model }})) or vector(0)) + (sum(firstlight_pool_waiting_requests{{ $model }}) or vector(0))
{{- end }}
