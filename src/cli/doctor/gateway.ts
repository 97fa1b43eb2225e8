/** A Firstlight gateway at an address where an engine was expected, or beside one. */
import { ask, type Endpoint } from './ask.ts'
import { Findings, type Subject } from './finding.ts'
import { statusOf } from './server-kind.ts'

export async function examineGateway(name: string, place: Endpoint, limitMs: number): Promise<Subject> {
  const found = new Findings()
  const ready = await ask(place, { path: '/ready', limitMs })
  if (statusOf(ready) === 'ready') found.ok('ready', 'accepts requests')
  else
    found.problem('ready', 'does not accept requests', { next: 'GET /ready returns the reason; its log has details.' })
  found.note('behind_it', 'not checked', { next: 'Run firstlight doctor --config FILE to check its engines.' })
  return { kind: 'gateway', name, url: place.url, is: 'Firstlight gateway', findings: found.list }
}
