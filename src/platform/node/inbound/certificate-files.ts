/** The certificate of the listener: files that are read at the start, and again when they change. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { createSecureContext, type SecureContextOptions } from 'node:tls'
import type { TlsConfig } from '../../../config.ts'
import { ConfigError } from '../../../config/problem.ts'
import type { Log } from '../../../ports/log.ts'
import { fileFingerprint } from '../file-fingerprint.ts'

type FileKey = 'cert' | 'key' | 'client_ca'

interface Certificate extends SecureContextOptions {
  /** End of the validity, as in `Jan 31 00:00:00 2027 GMT`. */
  readonly expires: string
}

/** Certificate managers replace files weeks before the old certificate ends. */
const LOOK_MS = 10_000

export class CertificateFiles {
  readonly #files: readonly (readonly [key: FileKey, file: string])[]
  /** Fingerprints of the files that were read last. */
  #state: string
  #watcher: { readonly renew: (certificate: Certificate) => void; readonly log: Log } | null = null

  /** @param folder folder of relative names */
  constructor({ cert, key, clientCa }: TlsConfig, folder: string) {
    const named = [['cert', cert] as const, ['key', key] as const, ['client_ca', clientCa] as const]
    this.#files = named.flatMap(([name, file]) => (file === null ? [] : [[name, resolve(folder, file)] as const]))
    this.#state = this.#fingerprints()
  }

  /** Reads and checks the files. Throws a ConfigError that names the file. */
  read(): Certificate {
    const [certPem, keyPem, ca] = (['cert', 'key', 'client_ca'] as const).map((key) => this.#textOf(key))
    const leaf = this.#checked('cert', () => new X509Certificate(certPem!))
    const privateKey = this.#checked('key', () => createPrivateKey(keyPem!))
    if (!leaf.checkPrivateKey(privateKey)) throw this.#problem('key', 'does not fit the certificate in tls.cert')
    if (ca !== null) this.#checked('client_ca', () => new X509Certificate(ca!))
    const options = { cert: certPem!, key: keyPem!, ...(ca === null ? {} : { ca: ca! }) }
    this.#checked('cert', () => createSecureContext(options))
    return { ...options, expires: leaf.validTo }
  }

  /** Calls `renew` with the new certificate when files have changed. A bad one is logged, and the old one stays. */
  watch(renew: (certificate: Certificate) => void, log: Log): () => void {
    this.#watcher = { renew, log }
    const timer = setInterval(() => this.look(), LOOK_MS).unref()
    return () => clearInterval(timer)
  }

  /** Looks now whether files have changed. */
  look(): void {
    const state = this.#fingerprints()
    if (this.#watcher === null || state === this.#state) return
    const { renew, log } = this.#watcher
    this.#state = state
    try {
      const certificate = this.read()
      renew(certificate)
      log.info('certificate_renewed', { expires: certificate.expires })
    } catch (error) {
      if (!(error instanceof ConfigError)) throw error
      const { path: setting, value: file, rule: why } = error.problems[0]!
      const next = 'The previous certificate stays in use. Replace the file.'
      log.error('certificate_refused', { setting, file, why, next })
    }
  }

  /** A file that is missing, for example while it is replaced, has an empty fingerprint. */
  #fingerprints(): string {
    return this.#files
      .map(([, file]) => {
        try {
          return fileFingerprint(file)
        } catch {
          return ''
        }
      })
      .join()
  }

  #textOf(key: FileKey): string | null {
    const file = this.#fileOf(key)
    if (file === null) return null
    try {
      return readFileSync(file, 'utf8')
    } catch (error) {
      throw this.#problem(key, `cannot be read (${(error as NodeJS.ErrnoException).code ?? 'unknown error'})`)
    }
  }

  #checked<Value>(key: FileKey, read: () => Value): Value {
    try {
      return read()
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      const kind = key === 'key' ? 'a private key without a passphrase' : 'a certificate'
      throw this.#problem(key, `is not ${kind} in PEM form (${code ?? 'unknown error'})`)
    }
  }

  #fileOf(key: FileKey): string | null {
    return this.#files.find(([name]) => name === key)?.[1] ?? null
  }

  #problem(key: FileKey, rule: string): ConfigError {
    return new ConfigError([{ path: `tls.${key}`, value: this.#fileOf(key), rule, line: null }])
  }
}
