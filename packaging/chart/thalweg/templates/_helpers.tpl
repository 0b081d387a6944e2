{{- define "thalweg.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "thalweg.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "thalweg.labels" -}}
{{ include "thalweg.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | quote }}
{{- end }}

{{- define "thalweg.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* The value of a generated secret: the one that is there, or a new one. */}}
{{- define "thalweg.generated" -}}
{{- $found := lookup "v1" "Secret" .root.Release.Namespace .name -}}
{{- if $found }}{{ index $found.data .key }}{{ else }}{{ randAlphaNum 32 | b64enc }}{{ end -}}
{{- end }}

{{- define "thalweg.passwordSecret" -}}
{{ .Values.auth.existingSecret | default (printf "%s-password" (include "thalweg.name" .)) }}
{{- end }}

{{- define "thalweg.clusterSecret" -}}
{{ .Values.cluster.existingSecret | default (printf "%s-cluster" (include "thalweg.name" .)) }}
{{- end }}

{{/* The pods of one kind, in different zones, and on different machines at least. */}}
{{- define "thalweg.affinity" -}}
{{- $labels := dict "matchLabels" (merge (dict "app.kubernetes.io/component" .component)
    (fromYaml (include "thalweg.selector" .root))) -}}
podAntiAffinity:
{{- if eq .root.Values.antiAffinity "required" }}
  requiredDuringSchedulingIgnoredDuringExecution:
    - topologyKey: topology.kubernetes.io/zone
      labelSelector: {{ toJson $labels }}
{{- else }}
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: topology.kubernetes.io/zone
        labelSelector: {{ toJson $labels }}
    - weight: 50
      podAffinityTerm:
        topologyKey: kubernetes.io/hostname
        labelSelector: {{ toJson $labels }}
{{- end }}
{{- end }}

{{- define "thalweg.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "thalweg.environment" -}}
- name: POD_NAME
  valueFrom: { fieldRef: { fieldPath: metadata.name } }
- name: POD_IP
  valueFrom: { fieldRef: { fieldPath: status.podIP } }
- name: THALWEG__LISTEN__ADDRESS
  value: {{ .Values.listen | quote }}
- name: THALWEG__LIMITS__DRAIN_TIMEOUT_MS
  value: {{ mul .Values.drain.statementsSeconds 1000 | quote }}
- name: THALWEG__AUTH__OPEN_METRICS
  value: {{ .Values.metrics.enabled | quote }}
{{- if .Values.tlsSecret }}
- name: THALWEG__TLS__CERTIFICATE
  value: /etc/thalweg-tls/tls.crt
- name: THALWEG__TLS__KEY
  value: /etc/thalweg-tls/tls.key
{{- end }}
{{- end }}

{{- define "thalweg.probes" -}}
{{- $scheme := ternary "HTTPS" "HTTP" (not (empty .Values.tlsSecret)) -}}
startupProbe:
  httpGet: { path: /health/live, port: http, scheme: {{ $scheme }} }
  periodSeconds: 5
  failureThreshold: {{ div .Values.probes.startupSeconds 5 }}
livenessProbe:
  httpGet: { path: /health/live, port: http, scheme: {{ $scheme }} }
  periodSeconds: 10
  timeoutSeconds: 5
  failureThreshold: 6
readinessProbe:
  httpGet: { path: /health/ready, port: http, scheme: {{ $scheme }} }
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
lifecycle:
  preStop:
    # The image has no shell, and the program waits as well as `sleep` does.
    exec:
      command: [/usr/bin/thalweg, --quiet, -c, "SELECT pg_sleep({{ .Values.drain.delaySeconds }})"]
{{- end }}

{{/* Databases lie in a directory below the mount: the root of a new volume may have lost+found. */}}
{{- define "thalweg.mounts" -}}
- { name: data, mountPath: /var/lib/thalweg }
- { name: tmp, mountPath: /tmp }
- { name: config, mountPath: /etc/thalweg, readOnly: true }
- { name: cluster, mountPath: /etc/thalweg-cluster, readOnly: true }
{{- if .Values.tlsSecret }}
- { name: tls, mountPath: /etc/thalweg-tls, readOnly: true }
{{- end }}
{{- end }}

{{- define "thalweg.volumes" -}}
- name: tmp
  emptyDir: {}
- name: config
  configMap: { name: {{ include "thalweg.name" . }} }
- name: cluster
  secret:
    secretName: {{ include "thalweg.clusterSecret" . }}
    defaultMode: 0440
{{- if .Values.tlsSecret }}
- name: tls
  secret: { secretName: {{ .Values.tlsSecret }}, defaultMode: 0440 }
{{- end }}
{{- end }}

{{/* Fields of a pod that all kinds share: root is the context, node the values of the kind. */}}
{{- define "thalweg.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .root.Values.drain }}
terminationGracePeriodSeconds: {{ add .delaySeconds .statementsSeconds .closeSeconds }}
{{- end }}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: { type: RuntimeDefault }
affinity: {{- include "thalweg.affinity" . | nindent 2 }}
{{- with .node.nodeSelector }}
nodeSelector: {{ toJson . }}
{{- end }}
{{- with .node.tolerations }}
tolerations: {{ toJson . }}
{{- end }}
{{- end }}

{{- define "thalweg.podAnnotations" -}}
checksum/config: {{ .root.Values.config | sha256sum }}
{{- if .root.Values.metrics.enabled }}
prometheus.io/scrape: "true"
prometheus.io/port: "7472"
prometheus.io/path: /metrics
{{- end }}
{{- with .node.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "thalweg.claims" -}}
- metadata: { name: data }
  spec:
    accessModes: [ReadWriteOnce]
    {{- with .className }}
    storageClassName: {{ . }}
    {{- end }}
    resources: { requests: { storage: {{ .size }} } }
{{- end }}
