/** The families of a Prometheus text: names, types and labels, without the values. */
export interface MetricFamily {
  readonly name: string
  readonly type: string
  /** Label names in the engine's order, without `le`. */
  readonly labels: readonly string[]
  /** Values of labels that distinguish samples of one family. */
  readonly values: Readonly<Record<string, readonly string[]>>
  /** Upper bounds of a histogram. */
  readonly buckets?: readonly string[]
}

const constant = new Set(['engine', 'model_name', 'le'])

export function metricFamilies(text: string): MetricFamily[] {
  const families: MetricFamily[] = []
  let name = ''
  let type = ''
  let samples: string[] = []
  const close = () => {
    if (name !== '') families.push(family(name, type, samples))
    samples = []
  }
  for (const line of text.split('\n')) {
    const heading = /^# TYPE (\S+) (\S+)/.exec(line)
    if (heading !== null) {
      close()
      // The type line of a counter lacks the `_total` of its samples, as OpenMetrics has it.
      name = heading[1]!.replace(/_total$/, '')
      type = heading[2]!
    } else if (line !== '' && !line.startsWith('#')) samples.push(line)
  }
  close()
  return families
}

function family(name: string, type: string, samples: readonly string[]): MetricFamily {
  const labels = new Set<string>()
  const values: Record<string, Set<string>> = {}
  const buckets = new Set<string>()
  for (const sample of samples) {
    for (const [, label, value] of sample.matchAll(/[{,]([a-zA-Z_]+)="((?:[^"\\]|\\.)*)"/g)) {
      if (label === 'le') buckets.add(value!)
      else labels.add(label!)
      if (!constant.has(label!) && name !== 'vllm:cache_config_info') (values[label!] ??= new Set()).add(value!)
    }
  }
  const lists = Object.fromEntries(Object.entries(values).map(([label, set]) => [label, [...set]]))
  return { name, type, labels: [...labels], values: lists, ...(buckets.size > 0 ? { buckets: [...buckets] } : {}) }
}
