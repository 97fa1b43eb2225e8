/** Parser of the Prometheus text format 0.0.4 for the samples of chosen metrics. */

export interface Sample {
  readonly labels: ReadonlyMap<string, string>
  readonly value: number
}

/** Pattern of the names at the beginning of a line. Other samples of the families (`*_created`) do not match. */
export function namesPattern(names: readonly string[]): RegExp {
  return new RegExp(`(?:${names.join('|')})(?=[{ ])`, 'y')
}

/**
 * Returns the samples whose names match, by name. Unreadable lines are ignored. Nearly all lines of an engine are
 * comments and buckets of histograms, so lines are not copied before their name matches.
 */
export function samplesOf(text: string, names: RegExp): Map<string, Sample[]> {
  const samples = new Map<string, Sample[]>()
  for (let at = 0, end = 0; at < text.length; at = end + 1) {
    end = text.indexOf('\n', at)
    if (end < 0) end = text.length
    names.lastIndex = at
    if (!names.test(text)) continue
    const sample = sampleOf(text.slice(names.lastIndex, end))
    if (sample === null) continue
    const name = text.slice(at, names.lastIndex)
    const known = samples.get(name)
    if (known === undefined) samples.set(name, [sample])
    else known.push(sample)
  }
  return samples
}

const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)",?/y

/** Parses the rest of a line after the name: `{label="value",…} number`. null: unreadable. */
function sampleOf(rest: string): Sample | null {
  const labels = new Map<string, string>()
  let at = 0
  if (rest.startsWith('{')) {
    LABEL.lastIndex = 1
    for (let match = LABEL.exec(rest); match !== null; match = LABEL.exec(rest)) {
      labels.set(match[1]!, match[2]!.includes('\\') ? unescaped(match[2]!) : match[2]!)
      at = LABEL.lastIndex
    }
    at = rest.indexOf('}', at)
    if (at < 0) return null
    at++
  }
  const value = Number.parseFloat(rest.slice(at))
  return Number.isFinite(value) ? { labels, value } : null
}

const unescaped = (text: string): string =>
  text.replaceAll(/\\(.)/g, (_, escaped: string) => (escaped === 'n' ? '\n' : escaped))
