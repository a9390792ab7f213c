{{- define "almanac.name" -}}
{{- .Values.fullnameOverride | default .Release.Name -}}
{{- end -}}

{{/* The settings of the cluster, as JSON; empty without any. */}}
{{- define "almanac.kubernetes" -}}
{{- .Values.settings.kubernetes | default dict | toJson -}}
{{- end -}}

{{/* Whether anything of the cluster is read: "true", else empty. */}}
{{- define "almanac.reads" -}}
{{- if or .Values.settings.kubernetes (eq (include "almanac.profiled" .) "true") }}true{{ end -}}
{{- end -}}

{{/* Whether TLS follows the profile of the cluster: "true", else empty. */}}
{{- define "almanac.profiled" -}}
{{- if eq (get (.Values.settings.http_tls | default dict) "min_version" | default "") "cluster" }}true{{ end -}}
{{- end -}}

{{/* Whether almanac stands in the place of catalogd: "true", else empty. */}}
{{- define "almanac.replaces" -}}
{{- $kubernetes := include "almanac.kubernetes" . | fromJson -}}
{{- if eq (get $kubernetes "cluster_catalogs" | default "off") "own" }}true{{ end -}}
{{- end -}}

{{/* The labels by which Services, policies and the budget find the pods. The
Service of catalogd finds them by the first one. */}}
{{- define "almanac.selector" -}}
app.kubernetes.io/name: {{ ternary "catalogd" "almanac" (eq (include "almanac.replaces" .) "true") }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "almanac.labels" -}}
{{ include "almanac.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "almanac.image" -}}
{{- $image := .Values.image | default dict -}}
{{- $repository := required "image.repository is missing: write the image of almanac, such as registry.example.com/almanac" $image.repository -}}
{{- if $image.digest -}}
{{ $repository }}@{{ $image.digest }}
{{- else -}}
{{ $repository }}:{{ $image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "almanac.tlsSecret" -}}
{{- .Values.tls.secretName | default (printf "%s-tls" (include "almanac.name" .)) -}}
{{- end -}}

{{- define "almanac.httpPort" -}}
{{- ternary 8080 8443 (eq .Values.tls.mode "none") -}}
{{- end -}}

{{/* The name of a catalog in Services and CatalogSources: no dots, no digit at the
     beginning, at most 63 characters. As `almanac manifests` has it. */}}
{{- define "almanac.label" -}}
{{- $label := . | replace "." "-" -}}
{{- if regexMatch "^[0-9]" $label -}}
{{- $label = printf "catalog-%s" $label -}}
{{- end -}}
{{- if gt (len $label) 63 -}}
{{- $label = printf "%s-%s" ($label | trunc 54 | trimAll "-") (sha256sum . | trunc 8) -}}
{{- end -}}
{{- $label -}}
{{- end -}}

{{/* The name of a ClusterCatalog, which must fit into the value of a label. */}}
{{- define "almanac.clusterCatalog" -}}
{{- if gt (len .) 63 -}}
{{- printf "%s-%s" (. | trunc 54 | trimAll "-.") (sha256sum . | trunc 8) -}}
{{- else -}}
{{- . -}}
{{- end -}}
{{- end -}}

{{/* A value of TOML. JSON's strings, numbers and lists of them are TOML's too. */}}
{{- define "almanac.toml" -}}
{{- if kindIs "map" . -}}
{{- $fields := list -}}
{{- range $key, $value := . -}}
{{- $fields = append $fields (printf "%s = %s" $key (include "almanac.toml" $value)) -}}
{{- end -}}
{ {{ join ", " $fields }} }
{{- else if kindIs "slice" . -}}
{{- $items := list -}}
{{- range . -}}
{{- $items = append $items (include "almanac.toml" .) -}}
{{- end -}}
[{{ join ", " $items }}]
{{- else -}}
{{- toJson . -}}
{{- end -}}
{{- end -}}

{{/* The settings without the catalogs, as JSON. */}}
{{- define "almanac.settings" -}}
{{- $settings := deepCopy .Values.settings -}}
{{- $bind := ternary (printf "[%s]" .Values.bindAddress) .Values.bindAddress (contains ":" .Values.bindAddress) -}}
{{- $_ := set $settings "data_dir" "/var/lib/almanac" -}}
{{- $_ := set $settings "grpc" (printf "%s:50051" $bind) -}}
{{- $_ := set $settings "http" (printf "%s:%s" $bind (include "almanac.httpPort" .)) -}}
{{- if .Values.metrics.enabled -}}
{{- $_ := set $settings "admin" (printf "%s:9090" $bind) -}}
{{- end -}}
{{- $registries := get $settings "registries" | default dict -}}
{{- with .Values.registries.pullSecret -}}
{{- $_ := set $registries "auth_files" (append (get $registries "auth_files" | default list) "/etc/almanac-auth/.dockerconfigjson") -}}
{{- end -}}
{{- with .Values.registries.caConfigMap -}}
{{- $_ := set $registries "ca_files" (append (get $registries "ca_files" | default list) (printf "/etc/almanac-ca/%s" $.Values.registries.caKey)) -}}
{{- end -}}
{{- with $registries -}}
{{- $_ := set $settings "registries" . -}}
{{- end -}}
{{- if .Values.fleet.secretName -}}
{{- $files := dict -}}
{{- with .Values.fleet.passwordKey -}}
{{- $_ := set $files "password_file" (printf "/etc/almanac-fleet/%s" .) -}}
{{- end -}}
{{- with .Values.fleet.credentialsKey -}}
{{- $_ := set $files "credentials_file" (printf "/etc/almanac-fleet/%s" .) -}}
{{- end -}}
{{- $_ := set $settings "fleet" (merge $files (get $settings "fleet" | default dict)) -}}
{{- end -}}
{{- if ne .Values.tls.mode "none" -}}
{{- $files := dict "certificate" "/etc/almanac-tls/tls.crt" "key" "/etc/almanac-tls/tls.key" -}}
{{- $_ := set $settings "http_tls" (merge $files (get $settings "http_tls" | default dict)) -}}
{{- end -}}
{{- toJson $settings -}}
{{- end -}}

{{/* Replicas of a fleet differ while one of them fetches a new revision. */}}
{{- define "almanac.affinity" -}}
{{- if .Values.settings.database }}
  # A client that stays with one replica never goes back to an earlier revision.
  sessionAffinity: ClientIP
{{- end -}}
{{- end -}}

{{/* What makes an object one of those that come before the others. */}}
{{- define "almanac.hook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ . | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end -}}

{{/* The configuration file. */}}
{{- define "almanac.configuration" -}}
{{- $settings := include "almanac.settings" . | fromJson -}}
{{- range $key, $value := $settings }}
{{- if not (kindIs "map" $value) }}
{{ $key }} = {{ include "almanac.toml" $value }}
{{- end }}
{{- end }}
{{- range $key, $value := $settings }}
{{- if kindIs "map" $value }}

[{{ $key }}]
{{- range $name, $member := $value }}
{{ $name }} = {{ include "almanac.toml" $member }}
{{- end }}
{{- end }}
{{- end }}
{{- range .Values.catalogs }}
{{- $catalog := deepCopy (.settings | default dict) }}
{{- $_ := set $catalog "name" .name }}
{{- with .source }}
{{- $_ := set $catalog "source" . }}
{{- end }}
{{- $host := printf "%s.%s.svc" (include "almanac.label" .name) $.Release.Namespace }}
{{- if and (ne (include "almanac.label" .name) .name) (not (has $host $catalog.authorities)) }}
{{- $_ := set $catalog "authorities" (append ($catalog.authorities | default list) $host) }}
{{- end }}

[[catalog]]
{{- range $name, $member := $catalog }}
{{ $name }} = {{ include "almanac.toml" $member }}
{{- end }}
{{- end }}
{{- end -}}

{{/* The settings that take effect after a restart. */}}
{{- define "almanac.restart" -}}
{{- $settings := include "almanac.settings" . | fromJson -}}
{{- pick $settings "data_dir" "grpc" "http" "admin" "database" "objects" "fleet" "max_connections" "cors_origins" "pages" "offline" "cache" "connections" "distribution" "http_tls" "kubernetes" "log" | toJson | sha256sum | trunc 16 -}}
{{- end -}}

{{/* What works, and may not be meant. */}}
{{- define "almanac.warnings" -}}
{{- $policy := .Values.networkPolicy -}}
{{- $guarded := false -}}
{{- range .Values.catalogs -}}
{{- $settings := .settings | default dict -}}
{{- if or $settings.token_files $settings.client_certificate -}}
{{- $guarded = true -}}
{{- end -}}
{{- end -}}
{{- if and $guarded (or (not $policy.enabled) (and .Values.olm.v0.enabled (not $policy.clients.grpc))) }}
Warning: gRPC asks for no token, and every pod of the cluster reaches its port. Name
its clients in networkPolicy.clients.grpc.
{{- end }}
{{- if and .Values.metrics.enabled (not $policy.enabled) }}
Warning: the admin port has no access control, and without networkPolicy.enabled every
pod of the cluster reaches it.
{{- end }}
{{- $registries := .Values.settings.registries | default dict -}}
{{- $signing := .Values.settings.signing | default dict -}}
{{- $files := concat (list $registries.policy_file $registries.registries_d $signing.key_file $signing.password_file) ($registries.image_policy_files | default list) | compact -}}
{{- range $file := $files -}}
{{- $mounted := false -}}
{{- range $.Values.volumeMounts -}}
{{- if hasPrefix (printf "%s/" (trimSuffix "/" .mountPath)) (printf "%s/" $file) -}}
{{- $mounted = true -}}
{{- end -}}
{{- end -}}
{{- if not $mounted }}
Warning: no volume is mounted at {{ $file }}, which the settings name: write volumes and
volumeMounts.
{{- end }}
{{- end -}}
{{- end -}}

{{/* What the schema of the values cannot express. */}}
{{- define "almanac.check" -}}
{{- $name := include "almanac.name" . -}}
{{- $labels := dict -}}
{{- $named := get (include "almanac.kubernetes" . | fromJson) "cluster_catalogs" | default "off" -}}
{{- if and (empty .Values.catalogs) (eq $named "off") -}}
{{- fail "catalogs: at least one is needed, unless settings.kubernetes.cluster_catalogs takes those of the cluster" -}}
{{- end -}}
{{- range .Values.catalogs -}}
{{- $label := include "almanac.label" .name -}}
{{- if hasKey $labels $label -}}
{{- fail (printf "the catalogs %s and %s would both be the Service %s" (get $labels $label) .name $label) -}}
{{- end -}}
{{- $_ := set $labels $label .name -}}
{{- if has $label (list $name (printf "%s-admin" $name)) -}}
{{- fail (printf "the catalog %s would have the Service %s, which is almanac's own: choose another release name or fullnameOverride" .name $label) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.olm.v1.enabled (not .Values.olm.v1.host) (eq .Values.tls.mode "none") -}}
{{- fail "olm.v1.enabled needs tls.mode: catalogd pulls over HTTPS only" -}}
{{- end -}}
{{- $kubernetes := include "almanac.kubernetes" . | fromJson -}}
{{- range $key := list "webhook" "namespace" "service_url" -}}
{{- if and (hasKey $kubernetes $key) (ne $named "own") -}}
{{- fail (printf "settings.kubernetes.%s is for cluster_catalogs: own alone" $key) -}}
{{- end -}}
{{- end -}}
{{- range $key := list "data_dir" "grpc" "http" "admin" -}}
{{- if hasKey $.Values.settings $key -}}
{{- fail (printf "settings.%s: the chart sets it" $key) -}}
{{- end -}}
{{- end -}}
{{- if hasKey .Values.settings "catalog" -}}
{{- fail "settings.catalog: write the value catalogs" -}}
{{- end -}}
{{- if hasKey .Values.settings "grpc_tls" -}}
{{- fail "settings.grpc_tls: OLM speaks no TLS over gRPC" -}}
{{- end -}}
{{- range .Values.catalogs -}}
{{- $settings := .settings | default dict -}}
{{- if hasKey $settings "grpc" -}}
{{- fail (printf "settings.grpc of the catalog %s: all catalogs have the port 50051, and a Service each" .name) -}}
{{- end -}}
{{- range $key := list "name" "source" -}}
{{- if hasKey $settings $key -}}
{{- fail (printf "settings.%s: write %s beside the settings of the catalog" $key $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $key := list "podMonitor" "prometheusRule" "dashboard" -}}
{{- if and (get $.Values.metrics $key).enabled (not $.Values.metrics.enabled) -}}
{{- fail (printf "metrics.%s.enabled needs metrics.enabled" $key) -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.tls.mode "serviceCa") (ne .Values.platform "openshift") -}}
{{- fail "tls.mode: serviceCa is for platform: openshift, whose service-ca writes the certificate" -}}
{{- end -}}
{{- $tls := .Values.settings.http_tls | default dict -}}
{{- if and (eq .Values.tls.mode "none") (not (and (hasKey $tls "certificate") (hasKey $tls "key"))) -}}
{{- if hasKey $kubernetes "webhook" -}}
{{- fail "settings.kubernetes.webhook needs tls.mode: the API server asks over TLS" -}}
{{- end -}}
{{- if $tls -}}
{{- fail "settings.http_tls needs tls.mode, or a certificate and a key there" -}}
{{- end -}}
{{- end -}}
{{- if and (hasKey $kubernetes "webhook") (hasKey $tls "client_ca") (ne (get $tls "client_certificates") "optional") -}}
{{- fail "settings.kubernetes.webhook needs client_certificates: optional in settings.http_tls: the API server shows none" -}}
{{- end -}}
{{- if and (eq $named "own") (gt (int .Values.replicas) 1) -}}
{{- fail "replicas: set 1 with settings.kubernetes.cluster_catalogs: own: one replica announces a digest before the others have pulled it, and they answer 503 meanwhile" -}}
{{- end -}}
{{- if ne (empty .Values.settings.database) (empty .Values.settings.objects) -}}
{{- fail "settings.database and settings.objects: a fleet needs both" -}}
{{- end -}}
{{- if and .Values.fleet.secretName (empty .Values.settings.database) -}}
{{- fail "fleet.secretName is for a fleet: write settings.database and settings.objects" -}}
{{- end -}}
{{- if and .Values.fleet.serviceAccountName (include "almanac.reads" .) -}}
{{- fail "fleet.serviceAccountName: with settings.kubernetes the pods have an account of the chart; let that one use the bucket" -}}
{{- end -}}
{{- range $label := list "olm.managed" "olm.catalogSource" -}}
{{- if hasKey $.Values.podLabels $label -}}
{{- fail (printf "podLabels: OLM deletes pods with the label %s that it did not create" $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
