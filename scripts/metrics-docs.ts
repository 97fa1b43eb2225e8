/** Generates docs/metrics.md and the Grafana dashboard from the table of metrics. */
import { BUCKETS_S, METRICS, NAMED_STAGES } from '../src/telemetry/metrics.ts'
import { GATEWAY_METRICS } from '../src/telemetry/gateway-metrics.ts'
import type { Metric } from '../src/telemetry/metric.ts'

const head = `# Metrics

<!-- Generated from src/telemetry/metrics.ts by \`npm run docs\`; edit it there. -->

\`GET /metrics\` returns the Prometheus text format, with the same text on both runtimes. It needs \`metrics.key\` as
\`authorization: Bearer\`, or the admin key. A gateway on loopback with neither \`keys\` nor \`admin\` needs no key.

\`\`\`yaml
# prometheus.yml
scrape_configs:
  - job_name: firstlight
    authorization: { credentials_file: /etc/prometheus/firstlight.key }
    static_configs: [{ targets: ['127.0.0.1:8080'] }]
\`\`\`

* **Labels** are names of your configuration (model, cluster, engine) and of closed lists; never an address, a key or text of a client.
  In the table, *engine* stands for the three labels \`model\`, \`cluster\` and \`engine\`.
* **Unknown values** have no sample, instead of a zero.
* **On Node** a process counts its own requests. **On Workers** most metrics come from the Durable Objects and are the same in every isolate.
  Metrics of completed requests need \`ttft: { enabled: true }\` there and are some seconds late. Metrics marked \\* count at the gateway itself: they
  are summed or merged over all isolates, at most 1 s late; \`firstlight_buffered_bytes\` and round trips are those of the isolate that answers.
* **After a restart** counters start at zero; on Workers those of completed requests survive an eviction.
* **The number of names is bounded.** Beyond 5,000 engines, further ones share the name \`other\`. Beyond 1,000 of them, engines without requests for a day
  are not shown, and are dropped after another day; such an engine starts at zero again. A counter that is shown never falls.
  Beyond 1,000 keys, teams or models, further ones share \`other\`, also in \`GET /v1/firstlight/usage\`; none is dropped before the process ends.
* **Histograms** are stored as sketches with a relative error of 1 % and shown in buckets of seconds: ${BUCKETS_S.join(', ')}.
* **OpenMetrics**: a scraper that asks for \`application/openmetrics-text\` gets the same metrics in that format (version 1.0), as Prometheus does by default. The bounds of buckets have a decimal point there
  (\`le="1.0"\`), which Prometheus 3 writes in both formats; Prometheus 2 shows two series for some minutes when the format changes.
* **Exemplars**: with [traces](traces.md#traces), each bucket of \`gen_ai_server_time_to_first_token_seconds\` and \`gen_ai_server_request_duration_seconds\` has the newest sampled request in it, as \`trace_id\` and \`span_id\`, in the
  OpenMetrics format only. Prometheus stores them with \`--enable-feature=exemplar-storage\`, and Grafana links them to the trace if its data source for Prometheus names the one for traces. At most 400 histograms have exemplars; on Workers they are those of the isolate that answers.
* **A scrape on Node does not delay requests.** It shows one moment and is written in pieces, between which requests are served: of 200 engines with every
  histogram filled, 14 MB, a piece takes less than a millisecond.

[examples/grafana/firstlight.json](../examples/grafana/firstlight.json) is a Grafana dashboard generated from the same table;
[examples/prometheus/alerts.yml](../examples/prometheus/alerts.yml) has alerts to start with.

| metric | type | labels | meaning |
| --- | --- | --- | --- |
`

export function metricsMarkdown(): string {
  const rows = METRICS.map(
    (metric) =>
      `| \`${metric.name}\`${isOfGateway(metric) ? ' \\*' : ''} | ${metric.type} | ${labelsText(labelsOf(metric))} | ${String(metric.help).replaceAll('|', '\\|')} |`,
  )
  const stages = `
Stages of \`firstlight_stage_seconds\`: \`edge\` (reading and checking), \`tokens\`, \`lookup\` (what LMCache holds), \`admit\` (ranking and booking), \`gateway_queue\` (waiting for room), \`encode\`,
\`prefill_leg\`, \`transfer\`, \`connect\`, \`first_byte\` (from dispatch), and as engines report them \`enc_queue\`, \`enc_compute\`, \`emb_cache_transfer\`,
\`prefill_queue\`, \`prefill_compute\`, \`reported_ttft\` (their sum). ${[...NAMED_STAGES].map((name) => `\`${name}\``).join(', ')} have metrics of their own.
`
  return `${head}${rows.join('\n')}\n${stages}`
}

/** Whether isolates of a Worker count it themselves, and their views merge it. */
const isOfGateway = (metric: Metric): boolean => metric.from === 'region' || GATEWAY_METRICS.includes(metric)

/** `engine`: with its model and cluster. */
const labelsText = (labels: readonly string[]): string =>
  labels.join(', ').replace('model, cluster, engine', '*engine*')

/** Labels of each sample in order, without `le`. */
export function labelsOf(metric: Metric): string[] {
  const engine = ['model', 'cluster', 'engine']
  switch (metric.from) {
    case 'engine':
      return engine
    case 'state':
      return [...engine, metric.label]
    case 'decision':
      return ['model', 'cluster', ...metric.labels.map((label) => (label === 'refused' ? 'reason' : label))]
    case 'count':
      return metric.label === undefined ? engine : [...engine, metric.label]
    case 'duration':
      return metric.stage === null ? [...engine, 'stage'] : ['gen_ai_request_model', 'cluster', 'engine']
    case 'region':
    case 'pool':
      return ['model', 'cluster']
    case 'capacity':
      return ['model', 'cluster', 'role']
    case 'target':
      return ['name', 'target']
    case 'gateway_counts':
      return [metric.label]
    case 'gateway':
      return []
  }
}
