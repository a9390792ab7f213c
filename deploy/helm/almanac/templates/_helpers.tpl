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

{{/* The name of a catalog in Services and CatalogSources, which have no dots. */}}
{{- define "almanac.label" -}}
{{- . | replace "." "-" -}}
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
{{- if ne .Values.tls.mode "none" -}}
{{- $files := dict "certificate" "/etc/almanac-tls/tls.crt" "key" "/etc/almanac-tls/tls.key" -}}
{{- $_ := set $settings "http_tls" (merge $files (get $settings "http_tls" | default dict)) -}}
{{- end -}}
{{- toJson $settings -}}
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
{{- if and (contains "." .name) (not (has $host $catalog.authorities)) }}
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
{{- if and $.Values.olm.v0.enabled (ne .olmV0 false) (or (gt (len $label) 63) (not (regexMatch "^[a-z]" $label))) -}}
{{- fail (printf "no Service can be named %s (up to 63 characters, a letter first): set olmV0 of the catalog to false" $label) -}}
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
{{- range $label := list "olm.managed" "olm.catalogSource" -}}
{{- if hasKey $.Values.podLabels $label -}}
{{- fail (printf "podLabels: OLM deletes pods with the label %s that it did not create" $label) -}}
{{- end -}}
{{- end -}}
{{- end -}}
