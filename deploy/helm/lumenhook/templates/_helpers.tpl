{{- define "lumenhook.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "lumenhook.selector" -}}
app.kubernetes.io/name: {{ .root.Chart.Name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .role }}
{{- end -}}

{{- define "lumenhook.labels" -}}
{{ include "lumenhook.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{- define "lumenhook.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ .repository }}@{{ .digest }}
{{- else -}}
{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "lumenhook.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "lumenhook.name" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{/* The configuration file of a role. */}}
{{- define "lumenhook.config" -}}
{{- $settings := mergeOverwrite (deepCopy .root.Values.config) (deepCopy .values.config) -}}
{{- range $own := list "roles" "data-dir" "secrets-dir" "api-listen" "metrics-listen" "node-name" "supervised" -}}
{{- if hasKey $settings $own -}}
{{- fail (printf "%s is the chart's own setting: take it out of config" $own) -}}
{{- end -}}
{{- end -}}
{{- $own := dict "roles" (list .role) "data-dir" "/var/lib/lumenhook" "api-listen" "0.0.0.0:8080" "metrics-listen" "0.0.0.0:9464" -}}
{{- merge $own $settings | toYaml -}}
{{- end -}}

{{- define "lumenhook.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* The pods of a role. */}}
{{- define "lumenhook.pod" -}}
metadata:
  labels:
    {{- include "lumenhook.labels" . | nindent 4 }}
  annotations:
    checksum/config: {{ include "lumenhook.config" . | sha256sum }}
    prometheus.io/scrape: "true"
    prometheus.io/port: "9464"
    {{- with .values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "lumenhook.serviceAccount" .root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ .root.Values.terminationGracePeriodSeconds }}
  securityContext:
    {{- toYaml .root.Values.podSecurityContext | nindent 4 }}
  {{- with .root.Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if .values.topologySpreadConstraints }}
    {{- toYaml .values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "lumenhook.selector" . | nindent 10 }}
    {{- end }}
  containers:
    - name: lumenhook
      image: {{ include "lumenhook.image" .root | quote }}
      imagePullPolicy: {{ .root.Values.image.pullPolicy }}
      args:
        - serve
        - --config=/etc/lumenhook/lumenhook.yaml
        {{- if .values.secret.keys }}
        - --secrets-dir=/etc/lumenhook/secrets
        {{- end }}
        {{- if eq .role "engine" }}
        - --supervised
        {{- end }}
      {{- if or .values.env (eq .role "engine") }}
      env:
        {{- if eq .role "engine" }}
        - name: LUMENHOOK_NODE_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        {{- end }}
        {{- with .values.env }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
      {{- end }}
      ports:
        {{- if eq .role "api" }}
        - {name: api, containerPort: 8080}
        {{- end }}
        - {name: operations, containerPort: 9464}
      livenessProbe:
        httpGet: {path: /healthz, port: operations}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: operations}
        periodSeconds: 5
        timeoutSeconds: 6
        failureThreshold: 2
      {{- if eq .role "api" }}
      lifecycle:
        preStop:
          sleep: {seconds: {{ .root.Values.apiPreStopSeconds }}}
      {{- end }}
      securityContext:
        {{- include "lumenhook.containerSecurity" . | nindent 8 }}
      resources:
        {{- toYaml .values.resources | nindent 8 }}
      volumeMounts:
        - {name: config, mountPath: /etc/lumenhook/lumenhook.yaml, subPath: lumenhook.yaml, readOnly: true}
        - {name: state, mountPath: /var/lib/lumenhook}
        {{- if .values.secret.keys }}
        - {name: secrets, mountPath: /etc/lumenhook/secrets, readOnly: true}
        {{- end }}
        {{- with .values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: config
      configMap: {name: {{ include "lumenhook.name" .root }}-{{ .role }}}
    {{- if .values.secret.keys }}
    - name: secrets
      secret: {{- include "lumenhook.secret" .values.secret | nindent 8 }}
    {{- end }}
    {{- if not (and (eq .role "engine") .values.persistence.enabled) }}
    - name: state
      emptyDir: {sizeLimit: {{ .root.Values.emptyDirSizeLimit }}}
    {{- end }}
    {{- with .values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{- define "lumenhook.secret" -}}
secretName: {{ .name }}
defaultMode: 0400
items:
  {{- range .keys }}
  - {key: {{ . }}, path: {{ . }}}
  {{- end }}
{{- end -}}
