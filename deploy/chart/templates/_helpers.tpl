{{/* Labels that every object gets besides app.kubernetes.io/name. */}}
{{- define "gpures.releaseLabels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels of one of our parts: dict "root" $ "component" name. */}}
{{- define "gpures.labels" -}}
{{ include "gpures.selector" . }}
{{ include "gpures.releaseLabels" .root }}
{{- end }}

{{- define "gpures.selector" -}}
app.kubernetes.io/name: gpu-reservations
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{- define "gpures.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* The pod security standard "restricted", and nothing that can be written. */}}
{{- define "gpures.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "gpures.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{/* What stands in every pod spec of ours: dict "root" $ "part" values. */}}
{{- define "gpures.podPlacement" -}}
{{- with .root.Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .part.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- if .part.affinity }}
affinity: {{- toYaml .part.affinity | nindent 2 }}
{{- else if .component }}
affinity: {{- include "gpures.apart" . | nindent 2 }}
{{- end }}
{{- end }}

{{/*
Soft, over nodes, each revision by itself: a rollout must not wait for room. Zones are not a second constraint here, for the
scheduler gives no score at all to nodes that lack one of the labels, and then both replicas land on one node of a cluster
without zones. dict "component" name.
*/}}
{{- define "gpures.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  matchLabelKeys: [pod-template-hash]
  labelSelector:
    matchLabels: {{- include "gpures.selector" . | nindent 6 }}
{{- end }}

{{/* Soft as well, over zones where there are any. dict "component" name. */}}
{{- define "gpures.apart" -}}
podAntiAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      podAffinityTerm:
        topologyKey: topology.kubernetes.io/zone
        matchLabelKeys: [pod-template-hash]
        labelSelector:
          matchLabels: {{- include "gpures.selector" . | nindent 12 }}
{{- end }}

{{/* Environment of both processes: dict "root" $ "part" values. */}}
{{- define "gpures.environment" -}}
- name: POD_NAME
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
- name: GPURES_SYSTEM_NAMESPACE
  value: {{ .root.Release.Namespace }}
- name: GPURES_LOG_LEVEL
  value: {{ .root.Values.logLevel }}
- name: GPURES_PROBE_PORT
  value: "8081"
{{- with .root.Values.displayTimezone }}
- name: EVENT_DISPLAY_TIMEZONE
  value: {{ . }}
{{- end }}
{{- with .part.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* On a port of their own, so that they never queue behind reviews. */}}
{{- define "gpures.probes" -}}
startupProbe:
  httpGet: {path: /livez, port: probes}
  periodSeconds: 1
  failureThreshold: 60
  timeoutSeconds: 2
livenessProbe:
  httpGet: {path: /livez, port: probes}
  periodSeconds: 10
  failureThreshold: 3
  timeoutSeconds: 5
readinessProbe:
  httpGet: {path: /readyz, port: probes}
  periodSeconds: 2
  failureThreshold: 1
  timeoutSeconds: 2
{{- end }}

{{/* "true" where the hold policy is to be installed. */}}
{{- define "gpures.holdPolicy" -}}
{{- $served := .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy" -}}
{{- if or (eq .Values.policies.hold "on") (and (eq .Values.policies.hold "auto") $served) -}}true{{- end -}}
{{- end }}
