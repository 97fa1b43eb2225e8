/** Rules for disaggregated pools. */
import type { PoolSettings } from '../config.ts'
import { hostOf } from '../url.ts'
import type { Finding } from './finding.ts'
import type { Path } from './path.ts'
import { canDecode, canPrefill } from './split-roles.ts'
import { didYouMean } from './suggest.ts'

/** Checks the receivers of the connector `lmcache`, and the ports of the connectors `sglang` and `mooncake`. */
export function checkSplit(findings: Finding[], pool: PoolSettings, at: Path): void {
  const { split, engines } = pool
  checkReceivers(findings, pool, [...at, 'lmcache'])
  for (const connector of ['sglang', 'mooncake'] as const)
    checkBootstrapPorts(findings, pool, split[connector].bootstrapPorts, [...at, connector, 'bootstrap_ports'])
  const isDisaggregated = engines.some((engine) => canPrefill(engine) || engine.role === 'decode')
  if (split.connector === 'lmcache' && split.mode !== 'never' && isDisaggregated)
    checkReceiverCoverage(findings, pool, [...at, 'lmcache'])
}

function checkBootstrapPorts(
  findings: Finding[],
  { engines }: PoolSettings,
  ports: Readonly<Record<string, number>>,
  at: Path,
): void {
  const prefillEngines = engines.filter(canPrefill).map(({ id }) => id)
  for (const id of Object.keys(ports))
    if (!prefillEngines.includes(id))
      findings.push({
        path: [...at, id],
        rule: `is not a prefill engine of this pool${didYouMean(id, prefillEngines)}`,
      })
}

/** Checks each configured receiver: its ports, its engine, its host. */
function checkReceivers(findings: Finding[], { split, engines }: PoolSettings, at: Path): void {
  const { decoder } = split.lmcache
  const decoders = Object.entries(split.lmcache.decoders ?? {})
  const receivers = [
    ...(decoder === null ? [] : [[['decoder'], decoder] as const]),
    ...decoders.map(([id, one]) => [['decoders', id], one] as const),
  ]
  for (const [path, { initPorts: init, allocPorts: alloc }] of receivers) {
    if (init.length !== alloc.length)
      findings.push({
        path: [...at, ...path],
        rule: `has ${init.length} init_ports and ${alloc.length} alloc_ports: each rank needs one of both`,
      })
  }
  const decodeEngines = engines.filter(canDecode).map(({ id }) => id)
  for (const [id] of decoders) {
    if (!decodeEngines.includes(id))
      findings.push({
        path: [...at, 'decoders', id],
        rule: `is not a decode engine of this pool${didYouMean(id, decodeEngines)}`,
      })
  }
  for (const [id, { host }] of decoders) {
    const template = engines.find((engine) => engine.id === id && engine.discover !== null)
    if (template !== undefined && host !== hostOf(template.url))
      findings.push({
        path: [...at, 'decoders', id, 'host'],
        rule:
          `must be the host of the engine's url, ${hostOf(template.url)}: with \`discover\` each address is a ` +
          'receiver',
      })
  }
}

/** Every decode engine needs a receiver. Without one it would use another protocol, or get another engine's cache. */
function checkReceiverCoverage(findings: Finding[], { split, engines }: PoolSettings, at: Path): void {
  const { decoder, decoders } = split.lmcache
  const decodeEngines = engines.filter(canDecode).map(({ id }) => id)
  if (decoder === null) {
    const missing = decodeEngines.filter((id) => decoders?.[id] === undefined)
    if (missing.length > 0)
      findings.push({ path: at, rule: `names no receiver for ${missing.join(', ')}: add it to \`decoders\`` })
    return
  }
  const addFinding = (rule: string) => findings.push({ path: [...at, 'decoder'], rule })
  if (decoders !== null) addFinding('contradicts `decoders`: leave one of them out')
  else if (engines.some((engine) => canDecode(engine) && engine.discover !== null))
    addFinding('is one receiver, but `discover` may find several decode engines: add the template to `decoders`')
  else if (decodeEngines.length > 1)
    addFinding(
      `is one receiver for ${decodeEngines.length} decode engines (${decodeEngines.join(', ')}): ` +
        'add each to `decoders`',
    )
}
