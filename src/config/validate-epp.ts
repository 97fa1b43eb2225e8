/** Rules of the endpoint picker: it needs a gRPC server, and engines that an address alone names. */
import type { Config, PoolSettings } from '../config.ts'
import type { Finding } from './finding.ts'
import { isProvider } from './is-provider.ts'
import { isSamePort } from './listen-conflicts.ts'
import type { Path } from './path.ts'
import { templatesIn } from './validate-template.ts'

const NO_ADDRESS = 'cannot be a destination of `epp`: a proxy sends requests to http://HOST:PORT without a path'

/** @param listens this runtime opens `listen` itself */
export function checkEpp(findings: Finding[], document: Config, listens: boolean): void {
  const { epp, listen, clusters } = document
  if (epp === null) return
  if (!listens) {
    findings.push({
      path: ['epp'],
      rule: 'needs `firstlight serve` on Node: leave it out, because a Worker cannot serve gRPC (no trailers)',
    })
    return
  }
  if (isSamePort(epp.listen, listen)) findings.push({ path: ['epp', 'listen'], rule: 'must differ from `listen`' })
  if (epp.health !== null && (isSamePort(epp.health, epp.listen) || isSamePort(epp.health, listen)))
    findings.push({ path: ['epp', 'health'], rule: 'must differ from `listen` and `epp.listen`' })
  if (epp.readObjectives && !templatesIn(document).some(({ engine }) => engine.discover === 'inferencepool'))
    findings.push({ path: ['epp', 'read_objectives'], rule: 'needs an engine with `discover: inferencepool`' })
  for (const [at, { gateway, pools }] of clusters.entries()) {
    if (gateway !== null) findings.push({ path: ['clusters', at, 'gateway'], rule: NO_ADDRESS })
    else
      for (const [pool, settings] of pools.entries()) checkEngines(findings, settings, ['clusters', at, 'pools', pool])
  }
}

function checkEngines(findings: Finding[], { engines }: PoolSettings, at: Path): void {
  for (const [index, engine] of engines.entries()) {
    const { protocol, pathname } = new URL(engine.url)
    if (isProvider(engine) || protocol !== 'http:' || pathname !== '/')
      findings.push({ path: [...at, 'engines', index, 'url'], rule: NO_ADDRESS })
  }
}
