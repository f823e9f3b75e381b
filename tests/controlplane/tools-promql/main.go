// promql answers PromQL queries over the series on stdin with Prometheus' own engine; the answer goes to stdout.
//
// {"series": [{"labels": {"__name__": "up"}, "samples": [[seconds, "value"]]}],
//
//	"queries": [{"expr": "up == 1", "from": seconds, "to": seconds, "step": seconds, "text": "a template or nothing"}]}
//
// Each query is answered with its series in the same form, and with what the template says of each one's last value.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/template"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

type series struct {
	Labels  map[string]string `json:"labels"`
	Samples [][2]any          `json:"samples"`
	Text    string            `json:"text,omitempty"`
}

type query struct {
	Expr           string
	From, To, Step float64
	Text           string
}

type asked struct {
	Series  []series
	Queries []query
}

// sample is one value without a histogram.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }

// given is the set of all series that match.
type given struct {
	found []storage.Series
	next  int
}

func (g *given) Next() bool                      { g.next++; return g.next <= len(g.found) }
func (g *given) At() storage.Series              { return g.found[g.next-1] }
func (*given) Err() error                        { return nil }
func (*given) Warnings() annotations.Annotations { return nil }

func main() {
	log.SetFlags(0)
	var input asked
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		log.Fatalf("promql: stdin: %v", err)
	}
	stored, err := read(input.Series)
	if err != nil {
		log.Fatalf("promql: %v", err)
	}
	engine := promql.NewEngine(promql.EngineOpts{
		MaxSamples: 10_000_000, Timeout: time.Minute, LookbackDelta: 5 * time.Minute,
		Parser: parser.NewParser(parser.Options{}),
	})
	answers := make([][]series, 0, len(input.Queries))
	for _, each := range input.Queries {
		answer, err := answer(engine, stored, each)
		if err != nil {
			log.Fatalf("promql: %s: %v", each.Expr, err)
		}
		answers = append(answers, answer)
	}
	if err := json.NewEncoder(os.Stdout).Encode(answers); err != nil {
		log.Fatalf("promql: stdout: %v", err)
	}
}

func read(given []series) ([]storage.Series, error) {
	stored := make([]storage.Series, 0, len(given))
	for _, each := range given {
		samples := make([]chunks.Sample, 0, len(each.Samples))
		for _, pair := range each.Samples {
			at, isNumber := pair[0].(float64)
			text, isText := pair[1].(string)
			value, err := strconv.ParseFloat(text, 64)
			if !isNumber || !isText || err != nil {
				return nil, fmt.Errorf("%v: no sample: %v", each.Labels, pair)
			}
			samples = append(samples, sample{int64(at * 1000), value})
		}
		stored = append(stored, storage.NewListSeries(labels.FromMap(each.Labels), samples))
	}
	return stored, nil
}

func answer(engine *promql.Engine, stored []storage.Series, asked query) ([]series, error) {
	ctx := context.Background()
	source := &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			return &given{found: matching(stored, matchers)}
		},
	}}
	from, to, step := seconds(asked.From), seconds(asked.To), seconds(asked.Step)
	epoch := time.Unix(0, 0)
	running, err := engine.NewRangeQuery(ctx, source, nil, asked.Expr, epoch.Add(from), epoch.Add(to), step)
	if err != nil {
		return nil, err
	}
	defer running.Close()
	matrix, err := running.Exec(ctx).Matrix()
	if err != nil {
		return nil, err
	}
	found := make([]series, 0, len(matrix))
	for _, each := range matrix {
		one := series{Labels: each.Metric.Map(), Samples: make([][2]any, 0, len(each.Floats))}
		for _, point := range each.Floats {
			one.Samples = append(one.Samples, [2]any{float64(point.T) / 1000, strconv.FormatFloat(point.F, 'g', -1, 64)})
		}
		if asked.Text != "" {
			last := each.Floats[len(each.Floats)-1].F
			if one.Text, err = expand(ctx, asked.Text, one.Labels, last); err != nil {
				return nil, err
			}
		}
		found = append(found, one)
	}
	return found, nil
}

func matching(stored []storage.Series, matchers []*labels.Matcher) []storage.Series {
	var found []storage.Series
	for _, each := range stored {
		matches := true
		for _, matcher := range matchers {
			matches = matches && matcher.Matches(each.Labels().Get(matcher.Name))
		}
		if matches {
			found = append(found, each)
		}
	}
	return found
}

// expand does what Prometheus does with an annotation of an alert.
func expand(ctx context.Context, text string, found map[string]string, value float64) (string, error) {
	data := template.AlertTemplateData(found, nil, "", promql.Sample{F: value})
	text = "{{$labels := .Labels}}{{$value := .Value}}" + text
	return template.NewTemplateExpander(ctx, text, "annotation", data, 0, nil, nil, nil).Expand()
}

func seconds(count float64) time.Duration { return time.Duration(count * float64(time.Second)) }
