package check

import (
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const chartDir = "../helm/lumenhook"

type values = map[string]any

// rendered contains the manifests of a release.
type rendered []metav1.Object

// kinds are the object kinds that the chart may contain. A manifest is decoded strictly.
var kinds = map[string]func() metav1.Object{
	"apps/v1 Deployment":  func() metav1.Object { return new(appsv1.Deployment) },
	"apps/v1 StatefulSet": func() metav1.Object { return new(appsv1.StatefulSet) },
	"autoscaling/v2 HorizontalPodAutoscaler": func() metav1.Object {
		return new(autoscalingv2.HorizontalPodAutoscaler)
	},
	"batch/v1 Job":                       func() metav1.Object { return new(batchv1.Job) },
	"networking.k8s.io/v1 Ingress":       func() metav1.Object { return new(networkingv1.Ingress) },
	"networking.k8s.io/v1 NetworkPolicy": func() metav1.Object { return new(networkingv1.NetworkPolicy) },
	"policy/v1 PodDisruptionBudget": func() metav1.Object {
		return new(policyv1.PodDisruptionBudget)
	},
	"v1 ConfigMap":      func() metav1.Object { return new(corev1.ConfigMap) },
	"v1 Service":        func() metav1.Object { return new(corev1.Service) },
	"v1 ServiceAccount": func() metav1.Object { return new(corev1.ServiceAccount) },
}

func render(given values) (rendered, error) {
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "shop", Namespace: "payments", IsInstall: true}
	all, err := chartutil.ToRenderValues(chart, given, release, nil)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	if err != nil {
		return nil, err
	}
	var objects rendered
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if path.Ext(name) != ".yaml" {
			continue
		}
		for _, text := range strings.Split("\n"+files[name], "\n---\n") {
			object, err := decode(text)
			if err != nil {
				return nil, fmt.Errorf("%s: %w\n%s", name, err, text)
			}
			if object != nil {
				objects = append(objects, object)
			}
		}
	}
	return objects, nil
}

// decode decodes a manifest. It returns nil if the text contains only white space and comments.
func decode(text string) (metav1.Object, error) {
	var kind metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(text), &kind); err != nil {
		return nil, err
	}
	if kind.Kind == "" && kind.APIVersion == "" {
		return nil, nil
	}
	fresh := kinds[kind.APIVersion+" "+kind.Kind]
	if fresh == nil {
		return nil, fmt.Errorf("a manifest of %s %s", kind.APIVersion, kind.Kind)
	}
	object := fresh()
	return object, yaml.UnmarshalStrict([]byte(text), object)
}

func named[T any](objects rendered, name string) *T {
	for _, o := range objects {
		if one, is := any(o).(*T); is && o.GetName() == name {
			return one
		}
	}
	return nil
}

// cases returns values to render: the defaults, the files in ci/, and each switch flipped.
func cases(t *testing.T) map[string]values {
	t.Helper()
	all := map[string]values{"defaults": {}}
	files, err := filepath.Glob(filepath.Join(chartDir, "ci", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		given, err := chartutil.ReadValuesFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = given
	}
	defaults, err := chartutil.ReadValuesFile(filepath.Join(chartDir, "values.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	switches(defaults.AsMap(), nil, func(at []string, on bool) {
		turned := any(!on)
		for _, key := range slices.Backward(at) {
			turned = values{key: turned}
		}
		given := turned.(values)
		if at[0] == "roles" && at[1] == "mailer" { // a mailer needs a server
			given["config"] = values{"smtp": values{"addr": "smtp.example.com:587", "from": "a@example.com"}}
		}
		all[strings.Join(at, ".")+fmt.Sprint("=", !on)] = given
	})
	if len(all) < 20 {
		t.Fatalf("only %d cases", len(all))
	}
	return all
}

// switches calls f for each boolean value.
func switches(v values, at []string, f func(at []string, on bool)) {
	for key, value := range v {
		here := append(slices.Clone(at), key)
		switch value := value.(type) {
		case bool:
			if key != "runAsNonRoot" {
				f(here, value)
			}
		case values:
			switches(value, here, f)
		}
	}
}

func TestTheChartsManifests(t *testing.T) {
	checked := make(map[string]bool)
	for name, given := range cases(t) {
		t.Run(name, func(t *testing.T) {
			objects, err := render(given)
			if err != nil {
				t.Fatal(err)
			}
			checkReferences(t, objects)
			for _, w := range workloads(objects) {
				if what := w.fingerprint(t, objects); !checked[what] {
					checked[what] = true
					checkPod(t, objects, w)
				}
			}
		})
	}
}

func TestTheChartIsLinted(t *testing.T) {
	for name, given := range cases(t) {
		for _, m := range lint.All(chartDir, given, "payments", true).Messages {
			if m.Severity > support.InfoSev {
				t.Errorf("%s: %v", name, m)
			}
		}
	}
}

// fingerprint covers everything that a workload's pods are created from. Most cases change it for
// one workload.
func (w workload) fingerprint(t *testing.T, objects rendered) string {
	t.Helper()
	parts := []any{w.kind, w.name, w.pod, w.claims}
	for _, v := range w.pod.Volumes {
		if v.ConfigMap != nil {
			parts = append(parts, named[corev1.ConfigMap](objects, v.ConfigMap.Name))
		}
	}
	text, err := yaml.Marshal(parts)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// The chart must reject values that it would silently ignore.
func TestTheChartRefuses(t *testing.T) {
	for want, given := range map[string]values{
		"replica":           {"roles": values{"api": values{"replica": 3}}},
		"chef":              {"roles": values{"chef": values{}}},
		"metrics-listen is": {"config": values{"metrics-listen": "0.0.0.0:1"}},
		"roles is the chart": {
			"roles": values{"api": values{"config": values{"roles": []any{"engine"}}}},
		},
		"is not for it": {
			"roles": values{"follower": values{"autoscaling": values{"enabled": true}}},
		},
		"more engines than": {
			"roles": values{"engine": values{"autoscaling": values{"enabled": true, "maxReplicas": 49}}},
		},
	} {
		if _, err := render(given); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", given, err, want)
		}
	}
}

// checkPod checks that the program accepts the command line of a workload's pods, with their
// files as they are mounted.
func checkPod(t *testing.T, objects rendered, w workload) {
	t.Helper()
	if len(w.pod.Containers) != 1 {
		t.Fatalf("%s has %d containers", w.name, len(w.pod.Containers))
	}
	c := w.pod.Containers[0]
	p := place{name: w.name, env: make(map[string]string), paths: mounts(t, objects, w, c)}
	for _, v := range c.Env {
		p.env[v.Name] = v.Value
		if v.ValueFrom != nil && v.ValueFrom.FieldRef != nil &&
			v.ValueFrom.FieldRef.FieldPath == "metadata.name" {
			p.env[v.Name] = w.name + "-0"
		}
	}
	settings, err := p.accepts(c.Args)
	if err != nil {
		t.Error(err)
	}
	confined(t, w, c)
	if settings == nil {
		return
	}
	if want := "[" + w.role + "]"; settings["roles"] != want {
		t.Errorf("%s does %s", w.name, settings["roles"])
	}
	before := time.Duration(0)
	if c.Lifecycle != nil {
		before = time.Duration(c.Lifecycle.PreStop.Sleep.Seconds) * time.Second
	}
	endsInTime(t, w.name, settings, time.Duration(*w.pod.TerminationGracePeriodSeconds)*time.Second,
		before)
	listens := map[string]string{
		"operations": settings["metrics-listen"],
		"api":        settings["api-listen"],
	}
	for _, port := range c.Ports {
		if listens[port.Name] != fmt.Sprintf("0.0.0.0:%d", port.ContainerPort) {
			t.Errorf("%s: port %s is %d, and listened is at %s", w.name, port.Name, port.ContainerPort,
				listens[port.Name])
		}
	}
	for path, probe := range map[string]*corev1.Probe{
		"/healthz": c.LivenessProbe,
		"/readyz":  c.ReadinessProbe,
	} {
		if probe == nil || probe.HTTPGet == nil || probe.HTTPGet.Path != path ||
			probe.HTTPGet.Port.String() != "operations" {
			t.Errorf("%s: %s is not asked", w.name, path)
		}
	}
	if (settings["node-name"] != "") != (w.role == "engine") {
		t.Errorf("%s is named %q: a name is for pods that keep theirs", w.name, settings["node-name"])
	}
	if (settings["supervised"] == "true") != (settings["node-name"] != "") {
		t.Errorf("%s is supervised: %s; it is for processes that have a name", w.name,
			settings["supervised"])
	}
	if _, mounted := p.paths[settings["data-dir"]]; !mounted {
		t.Errorf("%s: nothing is mounted at %s", w.name, settings["data-dir"])
	}
}

// mounts creates the files that a container sees. It returns their paths on this machine.
func mounts(t *testing.T, objects rendered, w workload, c corev1.Container) map[string]string {
	t.Helper()
	paths := make(map[string]string)
	for _, m := range c.VolumeMounts {
		dir := t.TempDir()
		volume := w.volume(m.Name)
		switch {
		case volume == nil:
			t.Errorf("%s mounts %s, which there is not", w.name, m.Name)
		case volume.ConfigMap != nil:
			given := named[corev1.ConfigMap](objects, volume.ConfigMap.Name)
			if given == nil {
				t.Fatalf("%s: there is no %s", w.name, volume.ConfigMap.Name)
			}
			for name, text := range given.Data {
				write(t, filepath.Join(dir, name), text)
			}
		case volume.Secret != nil:
			for _, item := range volume.Secret.Items {
				secret(t, dir, item.Path)
			}
			if *volume.Secret.DefaultMode != 0o400 || w.pod.SecurityContext.FSGroup == nil {
				t.Errorf("%s: a secret has the mode %o", w.name, *volume.Secret.DefaultMode)
			}
		}
		paths[m.MountPath] = filepath.Join(dir, m.SubPath)
		if _, err := os.Stat(paths[m.MountPath]); err != nil {
			t.Errorf("%s: %v", w.name, err)
		}
	}
	return paths
}

// confined checks the strictest of Kubernetes' pod security standards, and a little more.
func confined(t *testing.T, w workload, c corev1.Container) {
	t.Helper()
	pod, own := w.pod.SecurityContext, c.SecurityContext
	if pod == nil || own == nil || pod.RunAsNonRoot == nil || !*pod.RunAsNonRoot ||
		*pod.RunAsUser == 0 ||
		pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault ||
		*own.AllowPrivilegeEscalation ||
		!*own.ReadOnlyRootFilesystem || !slices.Equal(own.Capabilities.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("%s is not confined: %+v, %+v", w.name, pod, own)
	}
	if w.pod.AutomountServiceAccountToken == nil || *w.pod.AutomountServiceAccountToken ||
		w.pod.EnableServiceLinks == nil || *w.pod.EnableServiceLinks {
		t.Errorf("%s is given what it does not use", w.name)
	}
	if c.Resources.Requests.Cpu().IsZero() || c.Resources.Limits.Memory().IsZero() {
		t.Errorf("%s has no bounds: %+v", w.name, c.Resources)
	}
}
