{{/* The labels by which rules and routes distinguish installations, as a JSON list. */}}
{{- define "health.kept" -}}
{{- $prometheus := .Values.config.prometheus }}
{{- $kept := $prometheus.keep_labels | default (list "cluster" "env") }}
{{- if .Values.config.monitor.cluster }}
{{- $kept = append $kept "cluster" }}
{{- end }}
{{- range $name, $value := $prometheus.labels }}
{{- if $value }}
{{- $kept = append $kept $name }}
{{- end }}
{{- end }}
{{- $kept | uniq | toJson }}
{{- end }}
