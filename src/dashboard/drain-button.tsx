import { useState } from 'preact/hooks'
import type { EngineLine } from './engine-state.ts'
import { errorText } from './error-text.ts'
import { call } from './gateway.ts'
import { ProblemLine } from './problem-line.tsx'

/** Drains or undrains the engine. The new state arrives with the next view. */
export function DrainButton({ line: { engine, pool } }: { readonly line: EngineLine }) {
  const [isAsking, setAsking] = useState(false)
  const [problem, setProblem] = useState<string | null>(null)
  const verb = engine.draining ? 'undrain' : 'drain'
  const ask = async () => {
    setAsking(true)
    setProblem(null)
    try {
      await call(
        `v1/firstlight/engines/${encodeURIComponent(engine.id)}/${verb}?cluster=${encodeURIComponent(pool.cluster)}`,
        { method: 'POST' },
      )
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
        disabled={isAsking}
        aria-label={`${verb} ${engine.id}`}
        onClick={() => void ask()}
      >
        {verb}
      </button>
      <ProblemLine text={problem} />
    </>
  )
}
