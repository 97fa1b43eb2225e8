/** Rules for one engine and for the headers that the gateway sends. */
import type { EngineConfig } from '../config.ts'
import { checkDuplicates } from './duplicates.ts'
import type { Finding } from './finding.ts'
import type { Path } from './path.ts'
import { isProvider } from './is-provider.ts'

/** Rejects keys that do not apply to a provider. */
export function checkProvider(findings: Finding[], engine: EngineConfig, at: Path): void {
  const rule = 'is for your own engines: remove it with `kind: external`'
  if (!isProvider(engine)) {
    if (engine.providerModel !== null)
      findings.push({ path: [...at, 'provider_model'], rule: 'needs `kind: external`; engines serve the pool’s model' })
    return
  }
  if (engine.type !== 'auto') findings.push({ path: [...at, 'type'], rule })
  if (engine.role !== 'any') findings.push({ path: [...at, 'role'], rule })
  if (engine.discover !== null) findings.push({ path: [...at, 'discover'], rule })
  if (engine.kvEvents !== null) findings.push({ path: [...at, 'kv_events'], rule })
  if (engine.lmcacheInstance !== null) findings.push({ path: [...at, 'lmcache_instance'], rule })
}

/** Headers that belong to the connection or are set by the gateway. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-length',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

export function checkHeaders(findings: Finding[], headers: EngineConfig['headers'], at: Path): void {
  const names = Object.keys(headers)
  checkDuplicates(
    findings,
    names.map((name) => [name.toLowerCase(), [...at, 'headers', name]]),
  )
  for (const name of names) {
    if (RESERVED_HEADERS.has(name.toLowerCase()))
      findings.push({ path: [...at, 'headers', name], rule: 'belongs to the connection and cannot be set' })
  }
}

/** Certificates are for https on Node, and a certificate has its key. */
export function checkEngineTls(
  findings: Finding[],
  { tls, url }: Pick<EngineConfig, 'tls' | 'url'>,
  { at, listens }: { readonly at: Path; readonly listens: boolean },
): void {
  if (tls === null) return
  const path: Path = [...at, 'tls']
  if (!listens) findings.push({ path, rule: 'needs `firstlight serve` on Node: on Workers use an mTLS `binding`' })
  if (!url.startsWith('https:')) findings.push({ path, rule: 'needs an https `url`' })
  if (tls.cert !== null && tls.key === null) findings.push({ path, rule: 'has `cert` without `key`' })
  if (tls.key !== null && tls.cert === null) findings.push({ path, rule: 'has `key` without `cert`' })
  if (tls.ca === null && tls.cert === null && tls.key === null)
    findings.push({ path, rule: 'names no file: set `ca`, or `cert` and `key`' })
}

export function checkEngine(
  findings: Finding[],
  { key, headers }: Pick<EngineConfig, 'key' | 'headers'>,
  at: Path,
): void {
  checkHeaders(findings, headers, at)
  if (key !== null && Object.keys(headers).some((name) => name.toLowerCase() === 'authorization')) {
    findings.push({ path: [...at, 'key'], rule: 'contradicts the header `authorization`: leave one of them out' })
  }
}
