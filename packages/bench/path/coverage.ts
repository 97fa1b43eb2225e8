import { Session } from 'node:inspector/promises'
import { fileURLToPath } from 'node:url'

/** A function that V8 has seen. `ranges[0]` is the whole function; the others are blocks with a count of their own. */
export interface CoveredFunction {
  readonly file: string
  readonly name: string
  readonly ranges: readonly { readonly startOffset: number; readonly endOffset: number; readonly count: number }[]
}

const SRC = fileURLToPath(new URL('../../../src/', import.meta.url))

/** Coverage of the files below a folder in this process. Open it before they are imported. */
export class Coverage {
  readonly #session = new Session()
  readonly #root: string

  /** @param root default: `src` */
  constructor(root = SRC) {
    this.#root = root
  }

  async open(): Promise<void> {
    this.#session.connect()
    await this.#session.post('Profiler.enable')
    await this.#session.post('Profiler.startPreciseCoverage', { callCount: true, detailed: true })
  }

  /** Functions that ran, or whose blocks did, since the last call. */
  async take(): Promise<CoveredFunction[]> {
    const { result } = await this.#session.post('Profiler.takePreciseCoverage')
    return result.flatMap(({ url, functions }) => {
      if (!url.startsWith(`file://${this.#root}`)) return []
      const file = fileURLToPath(url).slice(this.#root.length)
      // The module itself counts as a function in the first report, but not in later ones.
      const own = functions.filter(({ functionName, ranges }) => functionName !== '' || ranges[0]!.startOffset > 0)
      return own.map(({ functionName, ranges }) => ({ file, name: functionName, ranges }))
    })
  }
}

/** Number of runs of the code at an offset: that of the innermost range. */
export function countAt({ ranges }: CoveredFunction, offset: number): number {
  let count = 0
  let size = Infinity
  for (const range of ranges) {
    const length = range.endOffset - range.startOffset
    if (range.startOffset <= offset && offset < range.endOffset && length <= size) {
      count = range.count
      size = length
    }
  }
  return count
}

export const identityOf = ({ file, ranges }: CoveredFunction): string => `${file}:${ranges[0]!.startOffset}`
