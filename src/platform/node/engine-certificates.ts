/** Certificates for the TLS connections to engines: files that are read again when they change. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createSecureContext } from 'node:tls'
import type { Config } from '../../config.ts'
import { ConfigError } from '../../config/problem.ts'
import { renderPath } from '../../config/path.ts'
import type { EngineTls } from '../../ports/engine-target.ts'
import type { Log } from '../../ports/log.ts'
import { fileFingerprint } from './file-fingerprint.ts'

/** Options of a TLS connection. */
interface ClientCertificate {
  readonly ca?: string
  readonly cert?: string
  readonly key?: string
}

/** Certificate managers replace files weeks before the old certificate ends. */
const LOOK_MS = 10_000

interface ReadFiles {
  readonly certificate: ClientCertificate
  fingerprint: string
  lookedAt: number
}

/** A file that cannot be used. */
class BadFile extends Error {
  readonly field: keyof ClientCertificate
  readonly file: string
  readonly rule: string

  constructor(field: keyof ClientCertificate, file: string, rule: string) {
    super(`tls.${field} ${rule}`)
    this.field = field
    this.file = file
    this.rule = rule
  }
}

/** Certificates of all engines. New connections use files that were replaced; a bad file leaves the old ones in use. */
export class EngineCertificates {
  readonly #known = new Map<string, ReadFiles>()
  readonly #now: () => number
  readonly #log: Pick<Log, 'info' | 'error'>

  constructor(now: () => number, log: Pick<Log, 'info' | 'error'>) {
    this.#now = now
    this.#log = log
  }

  /** Throws if the files cannot be used and never could. */
  optionsFor(tls: EngineTls): ClientCertificate {
    const name = JSON.stringify([tls.ca, tls.cert, tls.key])
    const known = this.#known.get(name)
    const now = this.#now()
    if (known !== undefined && now - known.lookedAt < LOOK_MS) return known.certificate
    const fingerprint = fingerprintOf(tls)
    if (known !== undefined) {
      known.lookedAt = now
      if (known.fingerprint === fingerprint) return known.certificate
      known.fingerprint = fingerprint
    }
    return this.#read(tls, name, { fingerprint, now, known })
  }

  #read(
    tls: EngineTls,
    name: string,
    { fingerprint, now, known }: { fingerprint: string; now: number; known: ReadFiles | undefined },
  ): ClientCertificate {
    try {
      const certificate = readFiles(tls)
      this.#known.set(name, { certificate, fingerprint, lookedAt: now })
      if (known !== undefined) this.#log.info('engine_certificate_renewed', { file: tls.cert ?? tls.ca })
      return certificate
    } catch (error) {
      if (known === undefined || !(error instanceof BadFile)) throw error
      const next = 'The previous certificate stays in use. Replace the file.'
      this.#log.error('engine_certificate_refused', { file: error.file, why: error.message, next })
      return known.certificate
    }
  }
}

/** Reads the files of all engines. Throws a ConfigError that names the engine, the file and the rule. */
export function checkEngineCertificates({ clusters }: Pick<Config, 'clusters'>): void {
  const problems = clusters.flatMap(({ pools }, cluster) =>
    pools.flatMap(({ engines }, pool) =>
      engines.flatMap(({ tls }, engine) => {
        if (tls === null) return []
        try {
          readFiles(tls)
          return []
        } catch (error) {
          if (!(error instanceof BadFile)) throw error
          const path = ['clusters', cluster, 'pools', pool, 'engines', engine, 'tls', error.field]
          return [{ path: renderPath(path), value: error.file, rule: error.rule, line: null }]
        }
      }),
    ),
  )
  if (problems.length > 0) throw new ConfigError(problems)
}

function readFiles({ ca, cert, key }: EngineTls): ClientCertificate {
  const texts = {
    ...(ca === null ? {} : { ca: textOf('ca', ca) }),
    ...(cert === null ? {} : { cert: textOf('cert', cert) }),
    ...(key === null ? {} : { key: textOf('key', key) }),
  }
  if (texts.ca !== undefined) checked('ca', ca!, () => new X509Certificate(texts.ca!))
  if (texts.cert !== undefined && texts.key !== undefined) {
    const leaf = checked('cert', cert!, () => new X509Certificate(texts.cert!))
    const privateKey = checked('key', key!, () => createPrivateKey(texts.key!))
    if (!leaf.checkPrivateKey(privateKey)) throw new BadFile('key', key!, 'does not fit the certificate in `cert`')
  }
  checked('cert', cert ?? ca ?? '', () => createSecureContext(texts))
  return texts
}

function textOf(field: keyof ClientCertificate, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (error) {
    throw new BadFile(field, file, `cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`)
  }
}

function checked<Value>(field: keyof ClientCertificate, file: string, read: () => Value): Value {
  try {
    return read()
  } catch (error) {
    const kind = field === 'key' ? 'a private key without a passphrase' : 'a certificate'
    const { code } = error as NodeJS.ErrnoException
    throw new BadFile(field, file, `is not ${kind} in PEM form (${code ?? 'unknown error'})`)
  }
}

/** A file that is missing, for example while it is replaced, has an empty fingerprint. */
function fingerprintOf({ ca, cert, key }: EngineTls): string {
  return [ca, cert, key]
    .map((file) => {
      try {
        return file === null ? '' : fileFingerprint(file)
      } catch {
        return ''
      }
    })
    .join()
}
