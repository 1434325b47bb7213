// The corpus of test_corpus.py: objects of every kind that Kubernetes' own Go code can encode,
// filled at random from fixed seeds, each as protobuf and as encoding/json writes it after
// decoding that protobuf again. One line each: base64 of the body, a tab, the JSON.
//
//	cd tests/unit/kube/protobuf/oracle && go run . 0 2 3 | gzip -9n > ../corpus.tsv.gz
//
// Seed 0 is the zero object of each kind, higher seeds are filled; `go run . $(seq 0 30)` makes
// a bigger corpus to try by hand. The output is the same on every run.
package main

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand"
	"os"
	"reflect"
	"sort"
	"strconv"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionv1beta1 "k8s.io/api/admission/v1beta1"
	discoveryv2 "k8s.io/api/apidiscovery/v2"
	discoveryv2beta1 "k8s.io/api/apidiscovery/v2beta1"
	imagepolicy "k8s.io/api/imagepolicy/v1alpha1"
	crdv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1beta1 "k8s.io/apimachinery/pkg/apis/meta/v1beta1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	apiservicev1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	apiservicev1beta1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1beta1"
	custommetricsv1beta1 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta1"
	custommetricsv1beta2 "k8s.io/metrics/pkg/apis/custom_metrics/v1beta2"
	externalmetrics "k8s.io/metrics/pkg/apis/external_metrics/v1beta1"
	metricsv1alpha1 "k8s.io/metrics/pkg/apis/metrics/v1alpha1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Deeper than this nothing is filled: schemas contain schemas.
const maxDepth = 24

var (
	texts      = []string{"", "a", "Ünï-東京", "x.y/z", "<&>\"\\\n", "0", "true"}
	rawJSON    = []string{`{"a":1,"b":[true,null,1.5]}`, `"text"`, `7`, `[]`, `{}`, `null`}
	quantities = []string{"0", "1", "100m", "1Gi", "1500Mi", "1e3", "0.5", "12345678901234567890", "-3", "5n"}
	floats     = []float64{0, 1, -2, 0.5, 1e20, 1e-7, 123456789.25, 1e21}
	int32s     = []int64{0, 1, -1, 1 << 30, -1 << 31}
	int64s     = []int64{0, 1, -1, 1<<53 + 1, -1 << 63, 1<<63 - 1}
	durations  = []time.Duration{0, 1, 999, 1000, 1500, 999999, 1e6, 15e8, 60e9, 3600e9, 3661e9 + 5, -1, -90e9, 1<<63 - 1, -1 << 63}
)

type filler struct {
	*rand.Rand
	zero, absent float64 // how often a value stays zero; how often a pointer, slice or map is nil
}

func (f *filler) text() string { return texts[f.Intn(len(texts))] + strconv.Itoa(f.Intn(3)) }

func (f *filler) raw() []byte { return []byte(rawJSON[f.Intn(len(rawJSON))]) }

func (f *filler) instant() time.Time {
	switch f.Intn(4) {
	case 0:
		return time.Time{}
	case 1:
		return time.Unix(0, 0)
	}
	return time.Unix(f.Int63n(1<<34)-1<<33, f.Int63n(1e9))
}

// special fills what would not survive encoding, or not be interesting, when filled blindly.
func (f *filler) special(target any) bool {
	switch p := target.(type) {
	case *metav1.TypeMeta:
	case *metav1.Time:
		p.Time = f.instant()
	case *metav1.MicroTime:
		p.Time = f.instant()
	case *metav1.Duration:
		p.Duration = durations[f.Intn(len(durations))]
	case *resource.Quantity:
		*p = resource.MustParse(quantities[f.Intn(len(quantities))])
	case *intstr.IntOrString:
		*p = intstr.FromInt32(f.Int31n(3) - 1)
		if f.Intn(2) == 0 {
			*p = intstr.FromString(f.text())
		}
	case *runtime.RawExtension:
		p.Raw = f.raw()
	case *metav1.FieldsV1:
		p.Raw = []byte(`{"f:metadata":{".":{}}}`)
	case *crdv1.JSON:
		p.Raw = f.raw()
	case *crdv1beta1.JSON:
		p.Raw = f.raw()
	default:
		return false
	}
	return true
}

func (f *filler) fill(v reflect.Value, depth int) {
	if depth > 0 && f.Float64() < f.zero || f.special(v.Addr().Interface()) {
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				f.fill(v.Field(i), depth+1)
			}
		}
		return
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if depth > maxDepth || f.Float64() < f.absent {
			return
		}
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), f.Intn(3), 2))
		for i := range v.Len() {
			f.fill(v.Index(i), depth+1)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for range f.Intn(3) {
			key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
			key.SetString(f.text())
			f.fill(value, depth+1)
			v.SetMapIndex(key, value)
		}
	case reflect.String:
		v.SetString(f.text())
	case reflect.Bool:
		v.SetBool(f.Intn(2) == 0)
	case reflect.Int32:
		v.SetInt(int32s[f.Intn(len(int32s))])
	case reflect.Int64:
		v.SetInt(int64s[f.Intn(len(int64s))])
	case reflect.Uint8:
		v.SetUint(uint64(f.Intn(256)))
	case reflect.Float64:
		v.SetFloat(floats[f.Intn(len(floats))])
	case reflect.Interface:
	default:
		panic("no way to fill a " + v.Kind().String())
	}
}

func fillerFor(seed, kind int) *filler {
	f := &filler{rand.New(rand.NewSource(int64(seed*10_000 + kind))), 0, 0}
	switch seed {
	case 0:
		f.zero = 1
	case 1:
		f.absent = 1
	default:
		f.zero = []float64{0, 0.1, 0.3, 0.5}[seed%4]
		f.absent = []float64{0.5, 0.6, 0.7, 0.8}[seed/4%4]
	}
	return f
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	types := scheme.Scheme
	for _, add := range []func(*runtime.Scheme) error{
		admissionv1.AddToScheme, admissionv1beta1.AddToScheme,
		discoveryv2.AddToScheme, discoveryv2beta1.AddToScheme, imagepolicy.AddToScheme,
		crdv1.AddToScheme, crdv1beta1.AddToScheme,
		apiservicev1.AddToScheme, apiservicev1beta1.AddToScheme,
		custommetricsv1beta1.AddToScheme, custommetricsv1beta2.AddToScheme, externalmetrics.AddToScheme,
		metricsv1alpha1.AddToScheme, metricsv1beta1.AddToScheme,
		metav1.AddMetaToScheme, metav1beta1.AddMetaToScheme,
	} {
		check(add(types))
	}
	var kinds []schema.GroupVersionKind
	for kind := range types.AllKnownTypes() {
		// A WatchEvent's envelope names no kind, a Table has no protobuf form.
		if kind.Version != runtime.APIVersionInternal && kind.Kind != "WatchEvent" && kind.Kind != "Table" {
			kinds = append(kinds, kind)
		}
	}
	sort.Slice(kinds, func(i, j int) bool { return kinds[i].String() < kinds[j].String() })
	serializer := protobuf.NewSerializer(types, types)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for index, kind := range kinds {
		for _, argument := range os.Args[1:] {
			seed, err := strconv.Atoi(argument)
			check(err)
			object, err := types.New(kind)
			check(err)
			fillerFor(seed, index).fill(reflect.ValueOf(object).Elem(), 0)
			object.GetObjectKind().SetGroupVersionKind(kind)
			body, err := runtime.Encode(serializer, object)
			check(err)
			decoded, _, err := serializer.Decode(body, nil, nil)
			check(err)
			text, err := json.Marshal(decoded)
			check(err)
			if len(body) < 100_000 {
				fmt.Fprintf(out, "%s\t%s\n", base64.StdEncoding.EncodeToString(body), text)
			}
		}
	}
}
