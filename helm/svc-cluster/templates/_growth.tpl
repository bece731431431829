{{/* What runs of this release: its nodes, and how many of them began the cluster. Without a cluster to
look at, and before an install, nothing. */}}
{{- define "svc.running" -}}
{{- $known := lookup "apps/v1" "StatefulSet" .Release.Namespace (printf "%s-node" (include "svc.fullname" .)) -}}
{{- if $known -}}
{{- $replicas := toString $known.spec.replicas -}}
{{- $marked := dig "metadata" "annotations" "svc-cluster/initial-nodes" "" $known -}}
{{- toJson (dict "replicas" ($replicas | int) "initial" ($marked | default $replicas | int)) -}}
{{- else -}}
{}
{{- end -}}
{{- end -}}

{{/* How many nodes began the cluster: their list holds for good. */}}
{{- define "svc.initialCount" -}}
{{- $running := include "svc.running" . | fromJson -}}
{{- .Values.replica.initialCount | default (get $running "initial") | default .Values.replica.replicaCount | int -}}
{{- end -}}

{{/* Empty, or that further nodes come with join tokens. */}}
{{- define "svc.joins" -}}
{{- if gt (int .Values.replica.replicaCount) (int (include "svc.initialCount" .)) -}}
true
{{- end -}}
{{- end -}}

{{/* An administrator's certificate, for what makes join tokens and removes nodes. */}}
{{- define "svc.memberSecret" -}}
{{ .Values.replica.existingAdministratorSecret | default (include "svc.administratorSecret" .) }}
{{- end -}}

{{/* Which node is asked for tokens and removals, and with what. */}}
{{- define "svc.memberEnv" -}}
- name: SVC_CLUSTER_ADMIN_RPC_ADDRESS
  value: {{ printf "%s-node-0.%s.%s.svc.%s:9095" (include "svc.fullname" .) (include "svc.headless" .) .Release.Namespace .Values.clusterDomain | quote }}
- name: SVC_CLUSTER_NODE_ID
  value: "1"
- name: SVC_CLUSTER_PEER_TLS_CERT
  value: /secrets/administrator/tls.crt
- name: SVC_CLUSTER_PEER_TLS_KEY
  value: /secrets/administrator/tls.key
- name: SVC_CLUSTER_PEER_TLS_CA
  value: /secrets/administrator/ca.crt
{{- end -}}

{{/* What a node's container runs. Ids count from 1, ordinals from 0. One that joins names itself beside
the first ones. */}}
{{- define "svc.nodeCommand" -}}
{{- if include "svc.joins" . -}}
{{- $rest := printf "%s.%s.svc.%s:7000" (include "svc.headless" .) .Release.Namespace .Values.clusterDomain -}}
n=$((${POD_NAME##*-} + 1));
if [ "$n" -gt {{ include "svc.initialCount" . }} ]; then
export SVC_CLUSTER_JOIN_TOKEN_FILE=/data/join-token
export SVC_CLUSTER_NODES="${SVC_CLUSTER_NODES%?},\"$n\":\"$POD_NAME.{{ $rest }}\"}";
fi;
SVC_CLUSTER_NODE_ID=$n exec python3 -m svc_cluster node
{{- else -}}
SVC_CLUSTER_NODE_ID=$((${POD_NAME##*-} + 1)) exec python3 -m svc_cluster node
{{- end -}}
{{- end -}}

{{/* What contradicts the nodes that there are. */}}
{{- define "svc.checkGrowth" -}}
{{- $initial := int (include "svc.initialCount" .) -}}
{{- $running := include "svc.running" . | fromJson -}}
{{- with get $running "initial" -}}
{{- if ne (int .) $initial -}}
{{- fail (printf "replica.initialCount is %d and %d nodes began the cluster: that holds for good, put it back" $initial (int .)) -}}
{{- end -}}
{{- end -}}
{{- if lt (int .Values.replica.replicaCount) $initial -}}
{{- fail (printf "replica.replicaCount is %d and %d nodes began the cluster, which stay: put it back" (int .Values.replica.replicaCount) $initial) -}}
{{- end -}}
{{- if gt (int .Values.replicationFactor) $initial -}}
{{- fail (printf "replicationFactor is %d and %d nodes began the cluster: it is at most that many" (int .Values.replicationFactor) $initial) -}}
{{- end -}}
{{- $moves := or (include "svc.joins" .) (gt (int (get $running "replicas" | default 0)) (int .Values.replica.replicaCount)) -}}
{{- if and $moves .Values.tls.peer.existingSecret (not .Values.replica.existingAdministratorSecret) -}}
{{- fail "nodes come or go and tls.peer.existingSecret is set without replica.existingAdministratorSecret: name the Secret with an administrator's certificate" -}}
{{- end -}}
{{- end -}}
