import type { Concern, Since } from './concerns.ts'
import { clock } from './format.ts'
import { RunbookLink } from './runbook-link.tsx'

/** Problems with reason, start, next step and the page that helps. */
export function Attention({ concerns, since }: { readonly concerns: readonly Concern[]; readonly since: Since }) {
  if (concerns.length === 0) return null
  return (
    <section aria-labelledby="attention" class="attention">
      <h2 id="attention">Needs attention</h2>
      <ul class="concerns">
        {concerns.map(({ key, tone, subject, reason, next, href, help, hurts }) => {
          const start = since.get(key)
          return (
            <li key={key} class={tone}>
              {href === null ? <b>{subject}</b> : <a href={href}>{subject}</a>}: {reason}.{' '}
              {hurts !== undefined && <span class="hurts">{hurts}. </span>}
              <span class="dim">
                {start !== undefined && `Since ${start.isAtLeast ? 'before ' : ''}${clock(start.at)}. `}
                {next} <RunbookLink help={help} />
              </span>
            </li>
          )
        })}
      </ul>
    </section>
  )
}
