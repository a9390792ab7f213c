{{/* The template of the pods. */}}
{{- define "almanac.pod" -}}
metadata:
  labels:
    {{- include "almanac.selector" . | nindent 4 }}
    {{- with .Values.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # Changes with the settings that take effect after a restart only.
    almanac/restart: {{ include "almanac.restart" . | quote }}
    {{- if eq .Values.platform "openshift" }}
    openshift.io/required-scc: restricted-v2
    {{- end }}
    {{- with .Values.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  {{- if include "almanac.reads" . }}
  # Its token is for the API of the cluster.
  serviceAccountName: {{ include "almanac.name" . }}
  automountServiceAccountToken: true
  {{- else }}
  {{- with .Values.fleet.serviceAccountName }}
  serviceAccountName: {{ . }}
  {{- end }}
  automountServiceAccountToken: false
  {{- end }}
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.priorityClassName }}
  priorityClassName: {{ . }}
  {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  tolerations:
    {{- if .Values.tolerations }}
    {{- toYaml .Values.tolerations | nindent 4 }}
    {{- else }}
    - key: node-role.kubernetes.io/control-plane
      operator: Exists
      effect: NoSchedule
    {{- if eq .Values.platform "openshift" }}
    - key: node-role.kubernetes.io/master
      operator: Exists
      effect: NoSchedule
    {{- end }}
    - key: node.kubernetes.io/not-ready
      operator: Exists
      effect: NoExecute
      tolerationSeconds: 120
    - key: node.kubernetes.io/unreachable
      operator: Exists
      effect: NoExecute
      tolerationSeconds: 120
    {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  topologySpreadConstraints:
    {{- if .Values.topologySpreadConstraints }}
    {{- toYaml .Values.topologySpreadConstraints | nindent 4 }}
    {{- else }}
    # On two nodes where there are several.
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "almanac.selector" . | nindent 10 }}
    {{- if .Values.settings.database }}
    # In several zones where there are some.
    - maxSkew: 1
      topologyKey: topology.kubernetes.io/zone
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "almanac.selector" . | nindent 10 }}
    {{- end }}
    {{- end }}
  terminationGracePeriodSeconds: {{ int .Values.terminationGracePeriodSeconds }}
  securityContext:
    runAsNonRoot: true
    {{- if eq .Values.platform "kubernetes" }}
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    {{- end }}
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: almanac
      image: {{ include "almanac.image" . }}
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args: ["serve", "--config", "/etc/almanac/almanac.toml"]
      {{- with .Values.env }}
      env:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      ports:
        - name: grpc
          containerPort: 50051
        - name: {{ ternary "http" "https" (eq .Values.tls.mode "none") }}
          containerPort: {{ include "almanac.httpPort" . }}
        {{- if get (include "almanac.kubernetes" . | fromJson) "webhook" }}
        - name: webhook
          containerPort: 9443
        {{- end }}
        {{- if .Values.metrics.enabled }}
        - name: admin
          containerPort: 9090
        {{- end }}
      # Inside the pod, because the admin port listens on loopback unless metrics
      # are on. A pod is ready after one attempt per catalog.
      readinessProbe:
        exec:
          command: ["/usr/bin/almanac", "health", "--config", "/etc/almanac/almanac.toml"]
        periodSeconds: 5
        timeoutSeconds: 5
      # Answers during the first passes too.
      livenessProbe:
        grpc:
          port: 50051
        initialDelaySeconds: 5
        periodSeconds: 15
        timeoutSeconds: 5
        failureThreshold: 4
      lifecycle:
        # The pod answers until the Services have removed it.
        preStop:
          sleep:
            seconds: 10
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: ["ALL"]
      volumeMounts:
        - name: data
          mountPath: /var/lib/almanac
        - name: config
          mountPath: /etc/almanac
          readOnly: true
        {{- if ne .Values.tls.mode "none" }}
        - name: tls
          mountPath: /etc/almanac-tls
          readOnly: true
        {{- end }}
        {{- if .Values.registries.pullSecret }}
        - name: auth
          mountPath: /etc/almanac-auth
          readOnly: true
        {{- end }}
        {{- if .Values.registries.caConfigMap }}
        - name: ca
          mountPath: /etc/almanac-ca
          readOnly: true
        {{- end }}
        {{- if .Values.fleet.secretName }}
        - name: fleet
          mountPath: /etc/almanac-fleet
          readOnly: true
        {{- end }}
        {{- with .Values.volumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    {{- if not .Values.persistence.enabled }}
    - name: data
      emptyDir:
        sizeLimit: {{ .Values.persistence.size }}
    {{- end }}
    - name: config
      {{- if eq .Values.settingsKind "Secret" }}
      secret:
        secretName: {{ include "almanac.name" . }}
      {{- else }}
      configMap:
        name: {{ include "almanac.name" . }}
      {{- end }}
    {{- if ne .Values.tls.mode "none" }}
    - name: tls
      secret:
        secretName: {{ include "almanac.tlsSecret" . }}
    {{- end }}
    {{- with .Values.registries.pullSecret }}
    - name: auth
      secret:
        secretName: {{ . }}
    {{- end }}
    {{- with .Values.registries.caConfigMap }}
    - name: ca
      configMap:
        name: {{ . }}
    {{- end }}
    {{- with .Values.fleet.secretName }}
    - name: fleet
      secret:
        secretName: {{ . }}
    {{- end }}
    {{- with .Values.volumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}
