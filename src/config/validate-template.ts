/** Rules for an engine with `discover`: a template of several engines may not have keys of one engine only. */
import type { Config, EngineConfig } from '../config.ts'
import { hostOf } from '../url.ts'
import { MAX_TEMPLATE_ID_CHARS } from './discover.ts'
import type { Finding } from './finding.ts'
import type { Path } from './path.ts'

export function checkTemplate(findings: Finding[], engine: EngineConfig, at: Path, listens: boolean): void {
  const addFinding = (key: keyof typeof engine | 'lmcache_instance' | 'kv_events', rule: string) =>
    findings.push({ path: [...at, key], rule })
  if (engine.discover !== 'kubernetes' && engine.kubernetes !== null)
    return void addFinding(
      'kubernetes',
      'selects pods for `discover: kubernetes`: add this key, or remove `kubernetes`',
    )
  // On Workers nothing else of it is checked.
  if (!listens)
    return void addFinding('discover', 'is of Node: Workers reach no engine by its address. Name each engine')
  if (engine.discover === 'kubernetes' && engine.kubernetes === null)
    addFinding('kubernetes', 'is missing: `discover: kubernetes` needs a selector, such as `{ selector: app=vllm }`')
  const host = hostOf(engine.url)
  if (new URL(engine.url).protocol !== 'http:')
    addFinding(
      'url',
      'must be http: with `discover` engines are reached by their addresses, which no certificate names',
    )
  if (isIP(host)) addFinding('url', 'is an address already: `discover` needs a name')
  if (engine.id.length > MAX_TEMPLATE_ID_CHARS)
    addFinding('id', `must have at most ${MAX_TEMPLATE_ID_CHARS} characters: \`discover\` puts an address behind it`)
  if (engine.lmcacheInstance !== null)
    addFinding(
      'lmcache_instance',
      'is of one engine, and `discover` may find several: leave it out, instances are found by host',
    )
  for (const socket of [engine.kvEvents?.endpoint, engine.kvEvents?.replayEndpoint]) {
    if (socket && hostOf(socket) !== host)
      addFinding(
        'kv_events',
        `must name the host of \`url\`, tcp://${host}:…: with \`discover\` each address publishes its own`,
      )
  }
}

const isIP = (host: string): boolean => host.includes(':') || /^\d+(\.\d+){3}$/.test(host)

export const templatesIn = ({ clusters }: Config): { readonly engine: EngineConfig; readonly at: Path }[] =>
  clusters
    .flatMap(({ pools }, cluster) =>
      pools.flatMap(({ engines }, pool) =>
        engines.map((engine, index) => ({
          engine,
          at: ['clusters', cluster, 'pools', pool, 'engines', index] as Path,
        })),
      ),
    )
    .filter(({ engine }) => engine.discover !== null || engine.kubernetes !== null)
