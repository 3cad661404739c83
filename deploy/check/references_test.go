package check

import (
	"fmt"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
)

type workload struct {
	kind, name, role string
	labels           labels.Set
	selector         *metav1.LabelSelector // nil for a job
	pod              corev1.PodSpec
	claims           []corev1.PersistentVolumeClaim
	replicas         *int32
}

func workloads(objects rendered) (all []workload) {
	for _, o := range objects {
		var w workload
		var template corev1.PodTemplateSpec
		switch o := o.(type) {
		case *appsv1.Deployment:
			w, template = workload{kind: "Deployment", selector: o.Spec.Selector, replicas: o.Spec.Replicas},
				o.Spec.Template
		case *appsv1.StatefulSet:
			w = workload{kind: "StatefulSet", selector: o.Spec.Selector, replicas: o.Spec.Replicas}
			template = o.Spec.Template
			w.claims = o.Spec.VolumeClaimTemplates
		case *batchv1.Job:
			w, template = workload{kind: "Job"}, o.Spec.Template
		default:
			continue
		}
		w.name, w.labels, w.pod = o.GetName(), template.Labels, template.Spec
		w.role = w.labels["app.kubernetes.io/component"]
		all = append(all, w)
	}
	return all
}

// volume returns the volume or the claim with a name.
func (w workload) volume(name string) *corev1.Volume {
	for i, v := range w.pod.Volumes {
		if v.Name == name {
			return &w.pod.Volumes[i]
		}
	}
	if slices.ContainsFunc(w.claims,
		func(c corev1.PersistentVolumeClaim) bool { return c.Name == name }) {
		return &corev1.Volume{Name: name}
	}
	return nil
}

// checkReferences checks that names are valid and unique, and that the manifests refer to
// existing objects.
func checkReferences(t *testing.T, objects rendered) {
	t.Helper()
	all := workloads(objects)
	seen := make(map[string]bool)
	for _, o := range objects {
		checkName(t, o, seen)
		switch o := o.(type) {
		case *corev1.Service:
			w := chosen(t, all, o.Name, &metav1.LabelSelector{MatchLabels: o.Spec.Selector})
			for _, port := range o.Spec.Ports {
				hasPort(t, o.Name, w, port.TargetPort.String())
			}
		case *policyv1.PodDisruptionBudget:
			chosen(t, all, o.Name, o.Spec.Selector)
		case *networkingv1.NetworkPolicy:
			w := chosen(t, all, o.Name, &o.Spec.PodSelector)
			for _, rule := range o.Spec.Ingress {
				for _, port := range rule.Ports {
					hasPort(t, o.Name, w, port.Port.String())
				}
			}
		case *autoscalingv2.HorizontalPodAutoscaler:
			checkAutoscaler(t, all, o)
		case *appsv1.StatefulSet:
			if s := named[corev1.Service](objects, o.Spec.ServiceName); s == nil ||
				s.Spec.ClusterIP != "None" {
				t.Errorf("%s: there is no headless service %s", o.Name, o.Spec.ServiceName)
			}
		case *networkingv1.Ingress:
			backend := o.Spec.Rules[0].HTTP.Paths[0].Backend.Service
			s := named[corev1.Service](objects, backend.Name)
			if s == nil || s.Spec.Ports[0].Name != backend.Port.Name {
				t.Errorf("%s leads to %s, port %s, which there is not", o.Name, backend.Name, backend.Port.Name)
			}
		}
	}
	for _, w := range all {
		if account := w.pod.ServiceAccountName; account != "" && account != "default" &&
			named[corev1.ServiceAccount](objects, account) == nil {
			t.Errorf("%s runs as %s, which there is not", w.name, account)
		}
		if w.selector != nil {
			chosen(t, all, w.name, w.selector)
		}
	}
}

func checkName(t *testing.T, o metav1.Object, seen map[string]bool) {
	t.Helper()
	kind := fmt.Sprintf("%T ", o)
	if seen[kind+o.GetName()] {
		t.Errorf("%s %s is there twice", kind, o.GetName())
	}
	seen[kind+o.GetName()] = true
	for _, fault := range validation.IsDNS1123Label(o.GetName()) {
		t.Errorf("%s: %s", o.GetName(), fault)
	}
	for key, value := range o.GetLabels() {
		faults := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
		for _, fault := range faults {
			t.Errorf("%s: label %s: %s", o.GetName(), key, fault)
		}
	}
}

// chosen returns the single workload whose pods a selector matches.
func chosen(t *testing.T, all []workload, who string, s *metav1.LabelSelector) (found workload) {
	t.Helper()
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		t.Fatalf("%s: %v", who, err)
	}
	n := 0
	for _, w := range all {
		if selector.Matches(w.labels) {
			found = w
			n++
		}
	}
	if n != 1 {
		t.Errorf("%s chooses the pods of %d workloads", who, n)
	}
	return found
}

func hasPort(t *testing.T, who string, w workload, name string) {
	t.Helper()
	for _, c := range w.pod.Containers {
		if slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name == name }) {
			return
		}
	}
	t.Errorf("%s: pods of %s have no port %s", who, w.name, name)
}

// checkAutoscaler checks that an autoscaler's workload exists and has no replica count, which
// each upgrade would restore.
func checkAutoscaler(t *testing.T, all []workload, a *autoscalingv2.HorizontalPodAutoscaler) {
	t.Helper()
	target := a.Spec.ScaleTargetRef
	i := slices.IndexFunc(all,
		func(w workload) bool { return w.kind == target.Kind && w.name == target.Name })
	if i < 0 {
		t.Errorf("%s scales %s %s, which there is not", a.Name, target.Kind, target.Name)
		return
	}
	if all[i].replicas != nil {
		t.Errorf("%s has %d replicas, and %s", target.Name, *all[i].replicas, a.Name)
	}
}
