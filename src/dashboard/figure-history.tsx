/** Charts of the last 15 minutes under the tiles. */
import { type ComponentChildren, Fragment } from 'preact'
import { clock } from './format.ts'
import type { Figure, History } from './wire.ts'

const SPAN_MS = 15 * 60_000

const WIDTH = 120

const HEIGHT = 26

const BASE = HEIGHT - 2

const TOP = 2

interface FigureHistoryProps {
  readonly history: History | undefined
  readonly figure: Figure
  /** The present value, which no step has yet. */
  readonly now: number | null
  readonly text: (value: number) => string
  readonly objective: number | null
}

/** Line of the last 15 minutes. The axis starts at zero; unknown values leave a gap. */
export function FigureHistory({ history, figure, now, text, objective }: FigureHistoryProps) {
  const values = history?.[figure] ?? []
  const known = values.filter((value) => value !== null)
  const highest = Math.max(0, now ?? 0, ...known)
  // An objective far above the values would flatten them.
  const shown = objective !== null && objective <= 3 * highest ? objective : null
  const top = Math.max(highest, shown ?? 0)
  const yOf = (value: number) => (BASE - (top === 0 ? 0 : (value / top) * (BASE - TOP))).toFixed(1)
  const limit = objective === null ? ' · 15 min' : ` · slo ${text(objective)}`
  if (history === undefined || known.length === 0)
    return (
      <dd class="under">
        <Chart label="no values yet" />
        <span class="dim">no values yet</span>
      </dd>
    )
  const from = history.from + values.findIndex((value) => value !== null) * history.step_ms
  return (
    <dd class="under">
      <Chart label={`since ${clock(from)}: at most ${text(highest)}`}>
        {(top === 0 ? [] : partsOf(values, history.step_ms)).map(({ x, steps, width }) => {
          const line = steps.map((value) => `V${yOf(value)}h${width}`).join('')
          return (
            <Fragment key={x}>
              <path class="area" d={`M${x} ${BASE}${line}V${BASE}Z`} />
              <path d={`M${x} ${yOf(steps[0]!)}${line}`} />
            </Fragment>
          )
        })}
        {shown !== null && <path class="objective" d={`M0 ${yOf(shown)}H${WIDTH}`} />}
      </Chart>
      <span class="dim">
        {highest === 0 ? 'none' : `max ${text(highest)}`}
        {limit}
      </span>
    </dd>
  )
}

function Chart({ label, children }: { readonly label: string; readonly children?: ComponentChildren }) {
  return (
    <svg class="past" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" role="img" aria-label={label}>
      <path class="axis" d={`M0 ${BASE}H${WIDTH}`} />
      {children}
    </svg>
  )
}

interface Part {
  /** Start on the time axis. */
  readonly x: string
  readonly steps: readonly number[]
  /** Of each step. */
  readonly width: string
}

/** Divides the values at those that are unknown. The last step ends at the right edge. */
function partsOf(values: readonly (number | null)[], stepMs: number): Part[] {
  const width = (stepMs / SPAN_MS) * WIDTH
  const parts: { readonly x: string; readonly steps: number[]; readonly width: string }[] = []
  for (const [index, value] of values.entries()) {
    if (value === null) continue
    if (index === 0 || values[index - 1] === null)
      parts.push({ x: (WIDTH - (values.length - index) * width).toFixed(1), steps: [], width: width.toFixed(2) })
    parts.at(-1)!.steps.push(value)
  }
  return parts
}
