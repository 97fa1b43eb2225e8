/** Rules for an engine with `discover`: a template of several engines may not have keys of one engine only. */
import type { EngineConfig } from '../config.ts'
import { hostOf } from '../url.ts'
import { LONGEST_PATTERN_ID } from './discover.ts'
import type { Finding, Path } from './problem.ts'

export function checkPattern(found: Finding[], engine: EngineConfig, at: Path, listens: boolean): void {
  const fault = (key: keyof typeof engine | 'lmcache_instance' | 'kv_events', rule: string) =>
    found.push({ path: [...at, key], rule })
  if (engine.discover !== 'kubernetes' && engine.kubernetes !== null)
    return void fault('kubernetes', 'selects pods for `discover: kubernetes`: add this key, or remove `kubernetes`')
  // On Workers nothing else of it is checked.
  if (!listens) return void fault('discover', 'is of Node: Workers reach no engine by its address. Name each engine')
  if (engine.discover === 'kubernetes' && engine.kubernetes === null)
    fault('kubernetes', 'is missing: `discover: kubernetes` needs a selector, such as `{ selector: app=vllm }`')
  const host = hostOf(engine.url)
  if (new URL(engine.url).protocol !== 'http:')
    fault('url', 'must be http: with `discover` engines are reached by their addresses, which no certificate names')
  if (isIP(host)) fault('url', 'is an address already: `discover` needs a name')
  if (engine.id.length > LONGEST_PATTERN_ID)
    fault('id', `must have at most ${LONGEST_PATTERN_ID} characters: \`discover\` puts an address behind it`)
  if (engine.lmcacheInstance !== null)
    fault(
      'lmcache_instance',
      'is of one engine, and `discover` may find several: leave it out, instances are found by host',
    )
  for (const socket of [engine.kvEvents?.endpoint, engine.kvEvents?.replayEndpoint]) {
    if (socket && hostOf(socket) !== host)
      fault(
        'kv_events',
        `must name the host of \`url\`, tcp://${host}:…: with \`discover\` each address publishes its own`,
      )
  }
}

const isIP = (host: string): boolean => host.includes(':') || /^\d+(\.\d+){3}$/.test(host)
