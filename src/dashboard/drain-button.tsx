import { useState } from 'preact/hooks'
import { errorText } from './error-text.ts'
import { call } from './gateway.ts'
import { ProblemLine } from './problem-line.tsx'
import type { Engine } from './wire.ts'

interface DrainButtonProps {
  readonly engine: Pick<Engine, 'id' | 'draining'>
  /** Name for screen readers. Default: the id. */
  readonly name?: string
  /** Where the engine is, as parameters of the admin API. */
  readonly place: Readonly<Record<string, string>>
  /** Called after the gateway has done it. Its new state is in the next view. */
  readonly onDone?: (isDraining: boolean) => void
}

/** Drains or undrains an engine. */
export function DrainButton({ engine, name = engine.id, place, onDone }: DrainButtonProps) {
  const [isAsking, setAsking] = useState(false)
  const [problem, setProblem] = useState<string | null>(null)
  const verb = engine.draining ? 'undrain' : 'drain'
  const ask = async () => {
    if (isAsking) return
    setAsking(true)
    setProblem(null)
    try {
      const query = new URLSearchParams(place).toString()
      await call(`v1/firstlight/engines/${encodeURIComponent(engine.id)}/${verb}?${query}`, { method: 'POST' })
      onDone?.(verb === 'drain')
    } catch (error) {
      setProblem(errorText(error))
    } finally {
      setAsking(false)
    }
  }
  return (
    <>
      <button
        type="button"
        class="small"
        // Not `disabled`, which would take the focus of the keyboard away.
        aria-disabled={isAsking}
        aria-label={`${verb} ${name}`}
        onClick={() => void ask()}
      >
        {verb}
      </button>
      <ProblemLine text={problem} />
    </>
  )
}
