{{/*
A table as TOML. Arguments: dict "path" (list) "table" (dict). Values are written as JSON, because `toToml` of Helm would
write whole numbers as floats.
*/}}
{{- define "health.toml" -}}
{{- $path := .path -}}
{{- range $key, $value := .table }}
{{- if not (or (kindIs "map" $value) (kindIs "invalid" $value)) }}
{{ toJson $key }} = {{ toJson $value }}
{{- end }}
{{- end }}
{{- range $key, $value := .table }}
{{- if kindIs "map" $value }}
{{- $inner := append $path (toJson $key) }}

[{{ join "." $inner }}]
{{- include "health.toml" (dict "path" $inner "table" $value) }}
{{- end }}
{{- end }}
{{- end }}

{{/* The address of the status page: config.links.status_page if it is set, else the address of the Service. */}}
{{- define "health.statusPage" -}}
{{- $service := printf "http://%s.%s.svc:%v" (include "health.name" .) .Release.Namespace .Values.config.prometheus.port }}
{{- .Values.config.links.status_page | default $service | trimSuffix "/" }}
{{- end }}

{{/* health.toml */}}
{{- define "health.config" -}}
{{- $links := merge (dict "status_page" (include "health.statusPage" .)) .Values.config.links }}
{{- $owners := .Values.config.owners | default dict }}
{{- if .Values.owners }}
{{- $owners = dict "files" (prepend ($owners.files | default list) "/etc/kafka-client-health/owners.toml") }}
{{- end }}
{{- include "health.toml" (dict "path" list "table" (merge (dict "links" $links "owners" $owners) .Values.config)) | trim }}
{{- end }}
