// The webhook that the ordinary Go operator has: what sigs.k8s.io/controller-runtime's pkg/webhook/admission does per
// request, with the same libraries, without its plumbing (metrics, logging, certificate watcher), so a little cheaper than
// the real one. Read the AdmissionReview with a universal deserializer, the pod of it into corev1.Pod with another,
// change the pod, marshal it, and let a library find the patch: PatchResponseFromRaw.
package main

import (
	"encoding/json"
	"flag"
	"io"
	"log"
	"net/http"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
)

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func init() {
	utilruntime.Must(admissionv1.AddToScheme(scheme))
	utilruntime.Must(corev1.AddToScheme(scheme))
}

func patchOf(raw []byte) ([]byte, error) {
	pod := &corev1.Pod{}
	if _, _, err := codecs.UniversalDeserializer().Decode(raw, nil, pod); err != nil {
		return nil, err
	}
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{
		Key: "gpu-class-reservation", Operator: corev1.TolerationOpEqual, Value: "h100", Effect: corev1.TaintEffectNoSchedule,
	})
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations["gpures.dev/claim"] = "1764582000-1-9f3c"
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels["gpures.dev/reservation"] = "sprint"
	changed, err := json.Marshal(pod)
	if err != nil {
		return nil, err
	}
	operations, err := jsonpatch.CreatePatch(raw, changed)
	if err != nil {
		return nil, err
	}
	return json.Marshal(operations)
}

func mutate(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 7<<20))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	review := admissionv1.AdmissionReview{}
	_, kind, err := codecs.UniversalDeserializer().Decode(body, nil, &review)
	if err != nil || review.Request == nil {
		http.Error(w, "no AdmissionReview", http.StatusBadRequest)
		return
	}
	response := &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	patch, err := patchOf(review.Request.Object.Raw)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	jsonPatch := admissionv1.PatchTypeJSONPatch
	response.Patch, response.PatchType = patch, &jsonPatch
	answer := admissionv1.AdmissionReview{Response: response}
	answer.SetGroupVersionKind(*kind)
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(answer); err != nil {
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
