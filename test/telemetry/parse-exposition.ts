/** A strict parser of the Prometheus text format: throws where a scraper might only warn. */
export interface Family {
  readonly type: string
  readonly help: string | null
  readonly samples: {
    readonly name: string
    readonly labels: Readonly<Record<string, string>>
    readonly value: number
  }[]
}

const NAME = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const SAMPLE = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/
const LABEL = /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|$)/

export function parseExposition(text: string): Map<string, Family> {
  if (!text.endsWith('\n')) throw new Error('the last line does not end')
  const families = new Map<string, Family>()
  let help: { readonly name: string; readonly text: string } | null = null
  let current: { readonly name: string; readonly family: Family } | null = null
  const seen = new Set<string>()
  for (const line of text.slice(0, -1).split('\n')) {
    const about = /^# (HELP|TYPE) (\S+) (.*)$/.exec(line)
    if (about?.[1] === 'HELP') help = { name: about[2]!, text: about[3]! }
    else if (about !== null) {
      const name = about[2]!
      if (!NAME.test(name)) throw new Error(`bad name: ${name}`)
      if (families.has(name)) throw new Error(`${name} comes twice`)
      current = { name, family: { type: about[3]!, help: help?.name === name ? help.text : null, samples: [] } }
      families.set(name, current.family)
    } else {
      const sample = readSample(line)
      if (current === null || !belongs(sample.name, current.name, current.family.type))
        throw new Error(`${sample.name} stands under ${current?.name}`)
      const key = line.slice(0, line.lastIndexOf(' '))
      if (seen.has(key)) throw new Error(`twice: ${key}`)
      seen.add(key)
      current.family.samples.push(sample)
    }
  }
  for (const [name, family] of families) check(name, family)
  return families
}

function readSample(line: string): Family['samples'][number] {
  const match = SAMPLE.exec(line)
  if (match === null) throw new Error(`no sample: ${line}`)
  const labels: Record<string, string> = {}
  for (let rest = match[2] ?? ''; rest !== '';) {
    const label = LABEL.exec(rest)
    if (label === null || Object.hasOwn(labels, label[1]!)) throw new Error(`bad labels: ${line}`)
    labels[label[1]!] = label[2]!.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped))
    rest = rest.slice(label[0].length)
  }
  const value = match[3] === '+Inf' ? Infinity : Number(match[3])
  if (Number.isNaN(value)) throw new Error(`bad value: ${line}`)
  return { name: match[1]!, labels, value }
}

function belongs(sample: string, family: string, type: string): boolean {
  return type === 'histogram'
    ? ['_bucket', '_sum', '_count'].some((suffix) => sample === family + suffix)
    : sample === family
}

function check(name: string, { type, samples }: Family): void {
  if (samples.length === 0) throw new Error(`${name} has no sample`)
  if (type === 'counter' && !name.endsWith('_total')) throw new Error(`${name} is a counter without _total`)
  if (type === 'gauge' && name.endsWith('_total')) throw new Error(`${name} is a gauge with _total`)
  if (type !== 'gauge' && samples.some(({ value }) => value < 0)) throw new Error(`${name} is below zero`)
  if (type === 'histogram') checkHistogram(name, samples)
}

function checkHistogram(name: string, samples: Family['samples']): void {
  const series = new Map<string, { readonly buckets: [number, number][]; count?: number; sum?: number }>()
  for (const { name: full, labels, value } of samples) {
    const { le, ...own } = labels
    const key = JSON.stringify(own)
    const one = series.get(key) ?? { buckets: [] }
    series.set(key, one)
    if (full.endsWith('_bucket')) one.buckets.push([le === '+Inf' ? Infinity : Number(le), value])
    else if (full.endsWith('_count')) one.count = value
    else one.sum = value
  }
  for (const [key, { buckets, count, sum }] of series) {
    if (sum === undefined || buckets.at(-1)?.[0] !== Infinity || buckets.at(-1)![1] !== count)
      throw new Error(`${name}${key} has no end`)
    for (let at = 1; at < buckets.length; at++) {
      if (!(buckets[at]![0] > buckets[at - 1]![0]) || buckets[at]![1] < buckets[at - 1]![1])
        throw new Error(`${name}${key} does not grow`)
    }
  }
}
