{{/*
The plain YAML of deploy/crds, deploy/policies and deploy/base is the only copy: files/ links to those folders, and
packaging the chart puts their contents in the place of the links. What a release changes in them is done here, and
nothing else: the namespace, names of Secrets, labels, and what the values ask for.
*/}}

{{/* The objects of a file as a JSON list: dict "root" $ "path" path. */}}
{{- define "gpures.objects" -}}
{{- $found := list -}}
{{- $secrets := .root.Values.certificates -}}
{{- $text := .root.Files.Get .path | replace "gpures-system" .root.Release.Namespace -}}
{{- $text = $text | replace "gpures-webhook-tls" $secrets.secretName | replace "gpures-webhook-ca" $secrets.caSecretName -}}
{{- range regexSplit "(?m)^---[ \t]*$" $text -1 -}}
{{- $object := fromYaml . -}}
{{- if hasKey $object "Error" -}}{{ fail (printf "%s: %s" $.path $object.Error) }}{{- end -}}
{{- if $object.kind -}}{{- $found = append $found $object -}}{{- end -}}
{{- end -}}
{{ toJson $found }}
{{- end }}

{{/* A file's objects as this release installs them: dict "root" $ "path" path; "annotations", "caBundle" as wanted. */}}
{{- define "gpures.plain" -}}
{{- $root := .root -}}
{{- range $object := include "gpures.objects" . | fromJsonArray }}
{{- /* The namespace is Helm's to make (--create-namespace); it holds the record of the release. The right to write
certificates is ours only where we make them. */}}
{{- $foreign := and (ne $root.Values.certificates.mode "selfManaged") (eq $object.metadata.name "gpures-reconciler-certificates") }}
{{- if not (or (eq $object.kind "Namespace") $foreign) }}
{{- $labels := include "gpures.releaseLabels" $root | fromYaml }}
{{- $_ := set $object.metadata "labels" (merge ($object.metadata.labels | default dict) $labels) }}
{{- with $.annotations }}
{{- $_ := set $object.metadata "annotations" (merge ($object.metadata.annotations | default dict) .) }}
{{- end }}
{{- /* The binding whose annotations are the parameters of the whole fence. */}}
{{- if and $.fenceLists (eq $object.kind "ValidatingAdmissionPolicyBinding") (eq $object.metadata.name "gpures-fence") }}
{{- range $list, $names := $.fenceLists }}{{ $_ := set $object.metadata.annotations $list $names }}{{ end }}
{{- end }}
{{- with $root.Values.excludedNamespaces }}
{{- include "gpures.exclude" (dict "match" (($object.spec | default dict).matchConstraints | default dict) "names" .) }}
{{- range $entry := $object.webhooks }}
{{- include "gpures.exclude" (dict "match" $entry "names" $root.Values.excludedNamespaces) }}
{{- end }}
{{- end }}
{{- if $.caBundle }}
{{- range $entry := $object.webhooks }}
{{- $_ := set $entry.clientConfig "caBundle" $.caBundle }}
{{- end }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{/* Leaves more namespaces alone: dict "match" what has a namespaceSelector or none, "names" list. */}}
{{- define "gpures.exclude" -}}
{{- range $expression := (.match.namespaceSelector | default dict).matchExpressions }}
{{- if and (eq $expression.key "kubernetes.io/metadata.name") (eq $expression.operator "NotIn") }}
{{- $_ := set $expression "values" (concat $expression.values $.names | uniq) }}
{{- end }}
{{- end }}
{{- end }}
