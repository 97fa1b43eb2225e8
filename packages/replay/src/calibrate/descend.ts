interface DescendOptions {
  readonly evaluations: number
  /** Initial step size in every direction. */
  readonly step: number
  readonly progress?: (done: number, of: number) => void
}

interface Corner {
  readonly point: readonly number[]
  readonly value: number
}

/** Minimises a function by the Nelder-Mead simplex, restarted where it gets stuck. */
export function descend(
  start: readonly number[],
  value: (point: readonly number[]) => number,
  options: DescendOptions,
): readonly number[] {
  const budget = { left: options.evaluations }
  const counted = (point: readonly number[]): Corner => {
    budget.left -= 1
    options.progress?.(options.evaluations - budget.left, options.evaluations)
    return { point, value: value(point) }
  }
  let best = counted(start)
  for (let step = options.step; budget.left > start.length + 1; step = Math.max(0.05, step / 2)) {
    const corners = [
      best,
      ...start.map((_, axis) => counted(best.point.map((at, other) => (other === axis ? at + step : at)))),
    ]
    best = settle(corners, counted, budget)
  }
  return best.point
}

const SMALL = 1e-4

function settle(
  corners: Corner[],
  counted: (point: readonly number[]) => Corner,
  budget: { readonly left: number },
): Corner {
  const byValue = (one: Corner, other: Corner) => one.value - other.value
  corners.sort(byValue)
  while (budget.left > 0 && corners.at(-1)!.value - corners[0]!.value > SMALL * Math.abs(corners[0]!.value)) {
    const worst = corners.pop()!
    const centre = corners[0]!.point.map(
      (_, axis) => corners.reduce((sum, { point }) => sum + point[axis]!, 0) / corners.length,
    )
    const along = (factor: number) => counted(centre.map((at, axis) => at + factor * (at - worst.point[axis]!)))
    const mirrored = along(1)
    const next =
      mirrored.value < corners[0]!.value
        ? better(mirrored, along(2))
        : mirrored.value < corners.at(-1)!.value
          ? mirrored
          : better(mirrored, along(-0.5))
    if (next.value < worst.value) corners.push(next)
    else shrink(corners, worst, counted)
    corners.sort(byValue)
  }
  return corners[0]!
}

function shrink(corners: Corner[], worst: Corner, counted: (point: readonly number[]) => Corner): void {
  const best = corners[0]!
  const towards = ({ point }: Corner) => counted(point.map((at, axis) => (at + best.point[axis]!) / 2))
  const moved = [...corners.slice(1), worst].map(towards)
  corners.splice(1, corners.length, ...moved)
}

const better = (one: Corner, other: Corner): Corner => (other.value < one.value ? other : one)
