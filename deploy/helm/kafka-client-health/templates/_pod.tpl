{{/*
A pod of one part, which meets the Pod Security Standard `restricted`.
Arguments: dict "root" $ "component" … "args" (list) "resources" … "tmp" size. Optional: "env" (dict), "port" (name and number),
"probes" (dict), "state" (whether the volume is mounted), "spec" (dict: further fields of the pod)
*/}}
{{- define "health.pod" -}}
{{- $root := .root -}}
{{- $own := .spec | default dict -}}
metadata:
  labels:
    {{- include "health.labels" . | nindent 4 }}
  annotations:
    checksum/config: {{ include "health.config" $root | sha256sum }}
    {{- with .port }}
    prometheus.io/scrape: "true"
    prometheus.io/port: {{ .number | toString | quote }}
    {{- end }}
    {{- with $root.Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- with omit $own "affinity" }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with merge (deepCopy ($own.affinity | default dict)) $root.Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with include "health.account" $root }}
  serviceAccountName: {{ . }}
  {{- end }}
  automountServiceAccountToken: false
  {{- /* Kubernetes' variables for services, such as KAFKA_HEALTH_SERVICE_HOST, would be read as settings. */}}
  enableServiceLinks: false
  securityContext:
    runAsNonRoot: true
    {{- with $root.Values.runAs.user }}
    runAsUser: {{ . }}
    {{- end }}
    {{- with $root.Values.runAs.group }}
    runAsGroup: {{ . }}
    fsGroup: {{ . }}
    {{- end }}
    seccompProfile: {type: RuntimeDefault}
  {{- with $root.Values.image.pullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $root.Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  containers:
    - name: {{ .component }}
      image: {{ printf "%s:%s" $root.Values.image.repository ($root.Values.image.tag | default $root.Chart.AppVersion) | quote }}
      imagePullPolicy: {{ $root.Values.image.pullPolicy }}
      args: {{ toJson (concat .args (list "--config" "/etc/kafka-client-health/health.toml")) }}
      {{- with $root.Values.existingSecret }}
      envFrom: [{secretRef: {name: {{ . }}}}]
      {{- end }}
      {{- if or .env $root.Values.extraEnv }}
      env:
        {{- range $name, $value := .env }}
        - {name: {{ $name }}, value: {{ $value | quote }}}
        {{- end }}
        {{- with $root.Values.extraEnv }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      {{- with .port }}
      ports: [{name: {{ .name }}, containerPort: {{ .number }}}]
      {{- end }}
      {{- with .probes }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities: {drop: [ALL]}
      resources:
        {{- toYaml .resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/kafka-client-health, readOnly: true}
        - {name: tmp, mountPath: /tmp}
        {{- if .state }}
        - {name: state, mountPath: /var/lib/kafka-client-health}
        {{- end }}
        {{- with $root.Values.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      projected:
        sources:
          - configMap: {name: {{ include "health.name" $root }}}
          {{- with $root.Values.certificatesSecret }}
          - secret: {name: {{ . }}}
          {{- end }}
    - {name: tmp, emptyDir: {sizeLimit: {{ .tmp }}}}
    {{- if .state }}
    - name: state
      persistentVolumeClaim: {claimName: {{ $root.Values.monitor.persistence.existingClaim | default (printf "%s-state" (include "health.name" $root)) }}}
    {{- end }}
    {{- with $root.Values.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* The name of the pods' service account; empty for the default account of the namespace. */}}
{{- define "health.account" -}}
{{- $account := .Values.serviceAccount -}}
{{- $account.name | default (ternary (include "health.name" .) "" $account.create) -}}
{{- end }}
