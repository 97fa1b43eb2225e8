/** Rules for an engine with `discover`: a template of several engines may not have keys of one engine only. */
import type { Config, EngineConfig } from '../config.ts'
import { hostOf } from '../url.ts'
import { MAX_TEMPLATE_ID_CHARS } from './discover.ts'
import type { Finding } from './finding.ts'
import type { Path } from './path.ts'
import { portsProblem } from './pod-ports.ts'

export function checkTemplate(findings: Finding[], engine: EngineConfig, at: Path, listens: boolean): void {
  const addFinding = (key: keyof typeof engine | 'lmcache_instance' | 'kv_events', rule: string) =>
    findings.push({ path: [...at, key], rule })
  const isInKubernetes = engine.discover === 'kubernetes' || engine.discover === 'inferencepool'
  if (!isInKubernetes && engine.kubernetes !== null)
    return void addFinding(
      'kubernetes',
      'selects pods for `discover: kubernetes` or `inferencepool`: add this key, or remove `kubernetes`',
    )
  // On Workers its other keys are not checked.
  if (!listens) return void addFinding('discover', 'works on Node only. On Workers, list each engine')
  if (isInKubernetes) checkPods(findings, engine, at)
  const host = hostOf(engine.url)
  if (new URL(engine.url).protocol !== 'http:')
    addFinding('url', 'must be http: `discover` connects to addresses, which certificates do not contain')
  if (isIP(host)) addFinding('url', 'is an IP address: `discover` needs a host name')
  if (engine.id.length > MAX_TEMPLATE_ID_CHARS)
    addFinding('id', `must have at most ${MAX_TEMPLATE_ID_CHARS} characters: \`discover\` appends an address`)
  if (engine.lmcacheInstance !== null)
    addFinding(
      'lmcache_instance',
      'belongs to one engine, and `discover` may find several. Remove it: instances are found by host',
    )
  for (const socket of [engine.kvEvents?.endpoint, engine.kvEvents?.replayEndpoint]) {
    if (socket && hostOf(socket) !== host)
      addFinding(
        'kv_events',
        `must name the host of \`url\`, tcp://${host}:…: with \`discover\` each address publishes its own`,
      )
  }
}

/** Each kind of discovery reads the keys of its own. */
function checkPods(findings: Finding[], { discover, kubernetes }: EngineConfig, at: Path): void {
  const addFinding = (path: readonly string[], rule: string) =>
    findings.push({ path: [...at, 'kubernetes', ...path], rule })
  const [own, other, example] =
    discover === 'kubernetes'
      ? (['selector', 'pool', '{ selector: app=vllm }'] as const)
      : (['pool', 'selector', '{ pool: vllm-qwen }'] as const)
  if (kubernetes === null || kubernetes[own] === null)
    addFinding([], `has no \`${own}\`, which \`discover: ${discover}\` needs, such as \`${example}\``)
  if (kubernetes === null) return
  if (kubernetes[other] !== null)
    addFinding([other], `does not go with \`discover: ${discover}\`: remove it, or change \`discover\``)
  for (const key of ['port', 'ports'] as const)
    if (discover === 'inferencepool' && kubernetes[key] !== null)
      addFinding([key], 'does not go with `discover: inferencepool`: the pool has target ports. Remove it')
  if (kubernetes.port !== null && kubernetes.ports !== null)
    addFinding(['ports'], 'contradicts `port`: leave one of them out')
  const problem = portsProblem(kubernetes.ports)
  if (problem !== null) addFinding(['ports'], problem)
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
