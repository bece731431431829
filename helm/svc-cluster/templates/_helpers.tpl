{{- define "svc.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "svc.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains (include "svc.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "svc.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "svc.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "svc.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Selectors never change: no version, no common labels. */}}
{{- define "svc.selector" -}}
app.kubernetes.io/name: {{ include "svc.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{- define "svc.annotations" -}}
{{- with .Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "svc.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{- define "svc.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "svc.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{- define "svc.clusterId" -}}
{{ .Values.clusterId | default (printf "%s-%s" .Release.Namespace (include "svc.fullname" .)) }}
{{- end -}}

{{- define "svc.authSecret" -}}
{{ .Values.auth.existingSecret | default (printf "%s-auth" (include "svc.fullname" .)) }}
{{- end -}}

{{/* Not `<release>-peer-tls`, in which 0.1 had the certificate of all pods: those of before an upgrade
   mount it until they are replaced, and read it again when it changes. */}}
{{- define "svc.nodeSecret" -}}
{{ .Values.tls.peer.existingSecret | default (printf "%s-node-tls" (include "svc.fullname" .)) }}
{{- end -}}

{{/* The gateways' own; who brings one Secret for all pods may. */}}
{{- define "svc.gatewaySecret" -}}
{{- with .Values.tls.peer -}}
{{ .existingGatewaySecret | default .existingSecret | default (printf "%s-gateway-tls" (include "svc.fullname" $)) }}
{{- end -}}
{{- end -}}

{{/* Which no pod mounts but that of backups: for whoever administers nodes. */}}
{{- define "svc.administratorSecret" -}}
{{ include "svc.fullname" . }}-administrator-tls
{{- end -}}

{{/* The ConfigMap with what gateways declare; empty: nothing. */}}
{{- define "svc.initConfig" -}}
{{- if .Values.init.declarations -}}
{{ include "svc.fullname" . }}-init
{{- else -}}
{{ .Values.init.existingConfigMap }}
{{- end -}}
{{- end -}}

{{/* A probe's question to a node: the settings of the role, the page, the service. Health in clear
has a port of its own, because gRPC probes know no TLS, and no names of ports. */}}
{{- define "svc.nodeProbe" -}}
{{- if (index . 0).grpcProbes -}}
grpc: {port: 9096, service: {{ index . 2 }}}
{{- else -}}
httpGet: {path: {{ index . 1 }}, port: metrics}
{{- end -}}
{{- end -}}

{{/* Certificate and key of a role's pods from the Secret of this name, and the CA's certificate: never
the CA's key. */}}
{{- define "svc.peerVolume" -}}
secret:
  secretName: {{ . }}
  defaultMode: 0440
  items:
    - {key: tls.crt, path: tls.crt}
    - {key: tls.key, path: tls.key}
    - {key: ca.crt, path: ca.crt}
{{- end -}}

{{- define "svc.publicSecret" -}}
{{ .Values.tls.public.existingSecret | default (printf "%s-public-tls" (include "svc.fullname" .)) }}
{{- end -}}

{{- define "svc.publicPort" -}}
{{ .Values.service.port | default (ternary 443 80 .Values.tls.public.enabled) }}
{{- end -}}

{{- define "svc.headless" -}}
{{ include "svc.fullname" . }}-headless
{{- end -}}

{{/* Names that the gateways answer for without authentication: of the Service, of the Ingress, and
what gateway.settings.public_hosts adds. */}}
{{- define "svc.publicHosts" -}}
{{- $name := include "svc.fullname" . -}}
{{- $host := printf "%s.%s.svc" $name .Release.Namespace -}}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) $host (printf "%s.%s" $host .Values.clusterDomain) -}}
{{- if .Values.gateway.ingress.enabled -}}
{{- range .Values.gateway.ingress.hosts -}}
{{- $hosts = append $hosts . -}}
{{- end -}}
{{- end -}}
{{- if .Values.gateway.httpRoute.enabled -}}
{{- range .Values.gateway.httpRoute.hostnames -}}
{{- $hosts = append $hosts . -}}
{{- end -}}
{{- end -}}
{{- range (get .Values.gateway.settings "public_hosts" | default list) -}}
{{- $hosts = append $hosts . -}}
{{- end -}}
{{- toJson (uniq $hosts) -}}
{{- end -}}

{{/* The nodes that began the cluster: id to address, as JSON in one line. Their list holds for good; who
comes later is found by the catalog. */}}
{{- define "svc.nodes" -}}
{{- $nodes := dict -}}
{{- range $i := until (int (include "svc.initialCount" .)) -}}
{{- $host := printf "%s-node-%d.%s.%s.svc.%s:7000" (include "svc.fullname" $) $i (include "svc.headless" $) $.Release.Namespace $.Values.clusterDomain -}}
{{- $_ := set $nodes (toString (add $i 1)) $host -}}
{{- end -}}
{{- toJson $nodes -}}
{{- end -}}

{{/* Where each node is administered, as ID=host:port in one line. */}}
{{- define "svc.administrations" -}}
{{- $all := list -}}
{{- range $i := until (int .Values.replica.replicaCount) -}}
{{- $all = append $all (printf "%d=%s-node-%d.%s.%s.svc.%s:9095" (add1 $i) (include "svc.fullname" $) $i (include "svc.headless" $) $.Release.Namespace $.Values.clusterDomain) -}}
{{- end -}}
{{- join " " $all -}}
{{- end -}}

{{/* The names in the pods' certificate. */}}
{{- define "svc.nodeNames" -}}
{{- $names := list -}}
{{- range $i := until (int .Values.replica.replicaCount) -}}
{{- $names = append $names (printf "node-%d.svc-cluster.internal" (add $i 1)) -}}
{{- end -}}
{{- toJson $names -}}
{{- end -}}

{{/* What a preset stands for: processor time asked for, memory asked for and allowed, and memory_mib, which
leaves the process some 400 MiB beside it. No limit of processor time: it would stop a loop in the
middle of a turn. */}}
{{- define "svc.presets" -}}
small: {cpu: 250m, memory: 1Gi}
medium: {cpu: "1", memory: 2Gi, memory_mib: 1280}
large: {cpu: "2", memory: 6Gi, memory_mib: 5120}
{{- end -}}

{{- define "svc.resources" -}}
{{- if .resources -}}
{{- toYaml .resources -}}
{{- else if ne .resourcesPreset "none" -}}
{{- $preset := get (fromYaml (include "svc.presets" .)) .resourcesPreset -}}
requests: {cpu: {{ $preset.cpu | quote }}, memory: {{ $preset.memory }}}
limits: {memory: {{ $preset.memory }}}
{{- end -}}
{{- end -}}

{{/* Where pods may go: other nodes, names, and what the values add. */}}
{{- define "svc.egress" -}}
- to:
    - podSelector:
        matchLabels:
          {{- include "svc.selector" (dict "root" . "component" "node") | nindent 10 }}
  ports: [{port: 7000, protocol: TCP}]
- ports:
    - {port: 53, protocol: UDP}
    - {port: 53, protocol: TCP}
{{- with .Values.networkPolicy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* What both roles read from the environment. */}}
{{- define "svc.env" -}}
- name: SVC_CLUSTER_CLUSTER_ID
  value: {{ include "svc.clusterId" .root | quote }}
- name: SVC_CLUSTER_NODES
  value: {{ include "svc.nodes" .root | quote }}
- name: SVC_CLUSTER_SECRET_FILE
  value: /secrets/auth/cluster-secret
- name: SVC_CLUSTER_PEER_TLS_CERT
  value: /secrets/peer/tls.crt
- name: SVC_CLUSTER_PEER_TLS_KEY
  value: /secrets/peer/tls.key
- name: SVC_CLUSTER_PEER_TLS_CA
  value: /secrets/peer/ca.crt
- name: SVC_CLUSTER_LOG_FORMAT
  value: json
{{- range $name, $value := omit .role.settings "public_hosts" }}
- name: {{ printf "SVC_CLUSTER_%s" (upper $name) }}
  value: {{ kindIs "string" $value | ternary $value (toJson $value) | quote }}
{{- end }}
{{- if and (not .role.resources) (ne .role.resourcesPreset "none") (not (hasKey .role.settings "memory_mib")) }}
{{- with (get (fromYaml (include "svc.presets" .)) .role.resourcesPreset).memory_mib }}
- name: SVC_CLUSTER_MEMORY_MIB
  value: {{ . | quote }}
{{- end }}
{{- end }}
{{- with .role.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "svc.affinity" -}}
{{- if eq .role.podAntiAffinityPreset "hard" }}
affinity:
  podAntiAffinity:
    requiredDuringSchedulingIgnoredDuringExecution:
      - topologyKey: kubernetes.io/hostname
        labelSelector:
          matchLabels:
            {{- include "svc.selector" . | nindent 12 }}
{{- else if eq .role.podAntiAffinityPreset "soft" }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "svc.selector" . | nindent 14 }}
{{- else }}
{{- with .role.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- with .role.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  - {{- toYaml . | nindent 4 }}
    labelSelector:
      matchLabels:
        {{- include "svc.selector" $ | nindent 8 }}
  {{- end }}
{{- end }}
{{- with .role.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .role.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .role.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{/* No restart is needed when certificates change: they are read again. */}}
{{- define "svc.podMetadata" -}}
labels:
  {{- include "svc.selector" . | nindent 2 }}
  {{- with .root.Values.commonLabels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- $own := dict -}}
{{- /* declarations are seen to when a gateway starts */ -}}
{{- if and (eq .component "gateway") .root.Values.init.declarations -}}
{{- $own = dict "svc-cluster/declarations" (toJson .root.Values.init.declarations | sha256sum) -}}
{{- end -}}
{{- with merge $own .role.podAnnotations .root.Values.commonAnnotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Contradictions that the schema cannot name. */}}
{{- define "svc.check" -}}
{{- range $old, $new := .Files.Get "files/renamed.yaml" | fromYaml -}}
{{- $found := $.Values -}}
{{- $is := true -}}
{{- range splitList "." $old -}}
{{- $is = and $is (kindIs "map" $found) -}}
{{- if $is -}}
{{- $is = hasKey $found . -}}
{{- $found = get $found . -}}
{{- end -}}
{{- end -}}
{{- if $is -}}
{{- fail (printf "%s is called %s in this chart: rename it" $old $new) -}}
{{- end -}}
{{- end -}}
{{- include "svc.checkGrowth" . -}}
{{- if and .Values.tls.peer.existingSecret .Values.tls.peer.certManager.enabled -}}
{{- fail "tls.peer.existingSecret and tls.peer.certManager.enabled are both set: choose one" -}}
{{- end -}}
{{- if and .Values.tls.peer.existingGatewaySecret (not .Values.tls.peer.existingSecret) -}}
{{- fail "tls.peer.existingGatewaySecret is set without tls.peer.existingSecret: name the nodes' Secret too" -}}
{{- end -}}
{{- if and .Values.tls.peer.certManager.enabled (not .Values.tls.peer.certManager.issuerRef.name) -}}
{{- fail "tls.peer.certManager.enabled is set without tls.peer.certManager.issuerRef.name: name the issuer" -}}
{{- end -}}
{{- if .Values.tls.public.enabled -}}
{{- if and .Values.tls.public.existingSecret .Values.tls.public.certManager.enabled -}}
{{- fail "tls.public.existingSecret and tls.public.certManager.enabled are both set: choose one" -}}
{{- end -}}
{{- if not (or .Values.tls.public.existingSecret .Values.tls.public.certManager.enabled) -}}
{{- fail "tls.public.enabled is set without a certificate: set tls.public.existingSecret or tls.public.certManager.enabled" -}}
{{- end -}}
{{- if and .Values.tls.public.certManager.enabled (not .Values.tls.public.certManager.issuerRef.name) -}}
{{- fail "tls.public.certManager.enabled is set without tls.public.certManager.issuerRef.name: name the issuer" -}}
{{- end -}}
{{- else if or .Values.tls.public.existingSecret .Values.tls.public.certManager.enabled -}}
{{- fail "tls.public has a certificate and is not enabled: set tls.public.enabled" -}}
{{- end -}}
{{- with .Values.init -}}
{{- if and .declarations .existingConfigMap -}}
{{- fail "init.declarations and init.existingConfigMap are both set: choose one" -}}
{{- end -}}
{{- if and .declarations.access_tokens (not .existingSecret) -}}
{{- fail "init.declarations has access_tokens and init.existingSecret is not set: name the Secret that has their secrets" -}}
{{- end -}}
{{- if and .existingSecret (not .declarations) (not .existingConfigMap) -}}
{{- fail "init.existingSecret is set and nothing is declared: set init.declarations or init.existingConfigMap" -}}
{{- end -}}
{{- end -}}
{{- with .Values.backup -}}
{{- if and .enabled (not .existingKeySecret) -}}
{{- fail "backup.enabled is set without backup.existingKeySecret: make a key with `svc-cluster backup key` and name the Secret that has it as svc-backup.key" -}}
{{- end -}}
{{- if and .enabled .place .existingClaim -}}
{{- fail "backup.place and backup.existingClaim are both set: choose one" -}}
{{- end -}}
{{- if and .enabled (not .place) (not .existingClaim) -}}
{{- fail "backup.enabled is set without a place: set backup.place (s3://BUCKET/FOLDER) or backup.existingClaim" -}}
{{- end -}}
{{- if and .enabled $.Values.tls.peer.existingSecret (not .existingAdministratorSecret) -}}
{{- fail "backup.enabled and tls.peer.existingSecret are set without backup.existingAdministratorSecret: name the Secret with an administrator's certificate" -}}
{{- end -}}
{{- end -}}
{{- with .Values.tls.public.clientCa -}}
{{- if and .required (not .existingConfigMap) -}}
{{- fail "tls.public.clientCa.required is set without tls.public.clientCa.existingConfigMap: name the ConfigMap of the clients' CAs" -}}
{{- end -}}
{{- if and .existingConfigMap (not $.Values.tls.public.enabled) -}}
{{- fail "tls.public.clientCa is set without tls.public.enabled: clients show certificates under TLS alone" -}}
{{- end -}}
{{- if and .existingConfigMap (not $.Values.auth.enabled) -}}
{{- fail "tls.public.clientCa is set without auth.enabled: certificates stand for access tokens" -}}
{{- end -}}
{{- end -}}
{{- if and .Values.gateway.ingress.enabled (not .Values.gateway.ingress.hosts) -}}
{{- fail "gateway.ingress.enabled is set without hosts: list at least one in gateway.ingress.hosts" -}}
{{- end -}}
{{- $asked := or (dig "requests" "cpu" "" .Values.gateway.resources) (and (not .Values.gateway.resources) (ne .Values.gateway.resourcesPreset "none")) -}}
{{- if and .Values.gateway.autoscaling.enabled (not $asked) -}}
{{- fail "gateway.autoscaling.enabled is set and gateways request no processor time, which it goes by: set gateway.resources.requests.cpu, or gateway.resourcesPreset" -}}
{{- end -}}
{{- if and .Values.gateway.httpRoute.enabled (not .Values.gateway.httpRoute.parentRefs) -}}
{{- fail "gateway.httpRoute.enabled is set without parentRefs: name at least one Gateway in gateway.httpRoute.parentRefs" -}}
{{- end -}}
{{- range $name, $role := dict "replica" .Values.replica "gateway" .Values.gateway -}}
{{- if and (gt (len $role.extraVolumeMounts) 0) (eq (len $role.extraVolumes) 0) -}}
{{- fail (printf "%s.extraVolumeMounts is set without %s.extraVolumes: name the volumes there" $name $name) -}}
{{- end -}}
{{- end -}}
{{- if and .Values.gateway.autoscaling.enabled (gt (int .Values.gateway.autoscaling.minReplicas) (int .Values.gateway.autoscaling.maxReplicas)) -}}
{{- fail "gateway.autoscaling.minReplicas is above maxReplicas: exchange them" -}}
{{- end -}}
{{- end -}}
