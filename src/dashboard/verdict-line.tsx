import { Fragment } from 'preact'
import type { Concern } from './concerns.ts'
import { RunbookLink } from './runbook-link.tsx'
import type { Verdict as Judged } from './verdict.ts'

interface VerdictProps {
  readonly verdict: Judged
  readonly concerns: readonly Concern[]
}

const NAMED = 3

/** The answer to "is the fleet well, and if not, where do I look". */
export function Verdict({ verdict: { tone, headline, more, help }, concerns }: VerdictProps) {
  const named = concerns.slice(0, NAMED)
  return (
    <p class="verdict" id="verdict">
      <b class={tone}>{headline}</b>
      {help !== null && <RunbookLink help={help} />}
      {named.length > 0 && (
        <span>
          {named.map(({ key, subject, href }, at) => (
            <Fragment key={key}>
              {at > 0 && ', '}
              <a href={href ?? '#attention'}>{subject}</a>
            </Fragment>
          ))}
          {concerns.length > NAMED && (
            <>
              {' '}
              and <a href="#attention">{concerns.length - NAMED} more</a>
            </>
          )}
        </span>
      )}
      {more.length > 0 && <span class="dim">{more.join(' · ')}</span>}
    </p>
  )
}
