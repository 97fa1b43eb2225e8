import { ms } from './format.ts'

const WIDTH = 72

const HEIGHT = 22

/** The latest TTFTs of one engine, oldest first. The axis starts at zero, so that engines compare. */
export function Sparkline({ values }: { readonly values: readonly number[] }) {
  if (values.length < 2) return <span class="dim">–</span>
  const max = Math.max(...values, 1)
  const points = values.map((value, index) => {
    const x = 1 + (index / (values.length - 1)) * (WIDTH - 4)
    return `${x.toFixed(1)},${(HEIGHT - 2 - (value / max) * (HEIGHT - 5)).toFixed(1)}`
  })
  const [x, y] = points.at(-1)!.split(',')
  return (
    <svg
      class="spark"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      role="img"
      aria-label={`last ${values.length} TTFTs: ${ms(Math.min(...values))} to ${ms(max)}, now ${ms(values.at(-1))}`}
    >
      <polyline points={points.join(' ')} />
      <circle cx={x} cy={y} r="1.8" />
    </svg>
  )
}
