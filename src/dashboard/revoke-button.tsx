import { useState } from 'preact/hooks'
import { errorText } from './error-text.ts'
import { call } from './gateway.ts'
import { ProblemLine } from './problem-line.tsx'

interface RevokeButtonProps {
  readonly name: string
  readonly onRevoked: () => Promise<void>
}

/** Revokes a key, after a second click: its clients are rejected at once. */
export function RevokeButton({ name, onRevoked }: RevokeButtonProps) {
  const [state, setState] = useState<'idle' | 'confirm' | 'revoking'>('idle')
  const [problem, setProblem] = useState<string | null>(null)
  const revoke = async () => {
    setState('revoking')
    setProblem(null)
    try {
      await call(`v1/firstlight/keys/${encodeURIComponent(name)}`, { method: 'DELETE' })
      await onRevoked()
    } catch (error) {
      setProblem(errorText(error))
      setState('idle')
    }
  }
  if (state === 'idle')
    return (
      <>
        <button type="button" class="small" aria-label={`revoke ${name}`} onClick={() => setState('confirm')}>
          revoke
        </button>
        <ProblemLine text={problem} />
      </>
    )
  return (
    <span class="confirm" role="group" aria-label={`Revoke ${name}?`}>
      <span>Requests with it are rejected.</span>
      <button
        type="button"
        class="small danger"
        disabled={state === 'revoking'}
        aria-label={`revoke ${name} now`}
        onClick={() => void revoke()}
      >
        revoke now
      </button>
      <button type="button" class="small" aria-label={`keep ${name}`} onClick={() => setState('idle')}>
        keep
      </button>
    </span>
  )
}
