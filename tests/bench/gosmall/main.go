// What a careful Go programmer writes without a framework: net/http, encoding/json into structs that have only the fields
// needed, the patch written by hand. It looks at the class label and answers the patch that lets a pod in.
package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"
)

type toleration struct {
	Key      string `json:"key,omitempty"`
	Operator string `json:"operator,omitempty"`
	Value    string `json:"value,omitempty"`
	Effect   string `json:"effect,omitempty"`
}

type container struct {
	Resources struct {
		Requests map[string]string `json:"requests"`
		Limits   map[string]string `json:"limits"`
	} `json:"resources"`
}

type pod struct {
	Metadata struct {
		Labels      map[string]string `json:"labels"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Containers     []container  `json:"containers"`
		InitContainers []container  `json:"initContainers"`
		Tolerations    []toleration `json:"tolerations"`
	} `json:"spec"`
}

type review struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Request    *struct {
		UID       string `json:"uid"`
		Operation string `json:"operation"`
		Namespace string `json:"namespace"`
		Object    pod    `json:"object"`
	} `json:"request"`
}

type response struct {
	UID       string `json:"uid"`
	Allowed   bool   `json:"allowed"`
	PatchType string `json:"patchType,omitempty"`
	Patch     []byte `json:"patch,omitempty"`
}

type answer struct {
	APIVersion string   `json:"apiVersion"`
	Kind       string   `json:"kind"`
	Response   response `json:"response"`
}

type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func patchOf(object *pod) ([]byte, error) {
	ours := toleration{Key: "gpu-class-reservation", Operator: "Equal", Value: "h100", Effect: "NoSchedule"}
	tolerate := operation{"add", "/spec/tolerations", []toleration{ours}}
	if len(object.Spec.Tolerations) > 0 {
		tolerate = operation{"add", "/spec/tolerations/-", ours}
	}
	return json.Marshal([]operation{
		tolerate,
		{"add", "/metadata/annotations/gpures.dev~1claim", "1764582000-1-9f3c"},
		{"add", "/metadata/labels/gpures.dev~1reservation", "sprint"},
	})
}

func mutate(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var asked review
	if err := json.Unmarshal(body, &asked); err != nil || asked.Request == nil {
		http.Error(w, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	told := response{UID: asked.Request.UID, Allowed: true}
	if asked.Request.Object.Metadata.Labels["gpu-class"] != "" {
		if told.Patch, err = patchOf(&asked.Request.Object); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		told.PatchType = "JSONPatch"
	}
	content, err := json.Marshal(answer{asked.APIVersion, asked.Kind, told})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(content); err != nil {
		log.Print(err)
	}
}

func main() {
	address := flag.String("address", "127.0.0.1:0", "where to listen")
	certificate := flag.String("certificate", "", "PEM file")
	key := flag.String("key", "", "PEM file")
	flag.Parse()
	http.HandleFunc("/mutate/grant", mutate)
	log.Fatal(http.ListenAndServeTLS(*address, *certificate, *key, nil))
}
