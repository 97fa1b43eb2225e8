import { mkdir, open, readFile, rename, rm, stat, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import type { Config } from '../../config.ts'
import { decodeIssuedKeys, type IssuedKey, type IssuedKeys } from '../../core/keys/issued-key.ts'
import type { Ports } from '../../ports.ts'
import type { IssuedKeyStore } from '../../ports/issued-keys.ts'
import { fingerprintOf } from './file-fingerprint.ts'

/** A process that holds the lock for longer has ended, ms: a change takes milliseconds. */
const LOCK_LAPSE_MS = 10_000
const LOCK_TRIES = 200
const LOCK_PAUSE_MS = 10

/** Version of the file's format. */
const FORMAT = 1

/** Adds the file of the configuration to the ports of a gateway. `folder`: folder of relative file names. */
export function withIssuedKeys(ports: Ports, { issuedKeys }: Pick<Config, 'issuedKeys'>, folder: string): Ports {
  const file = issuedKeys?.file ?? null
  return file === null ? ports : { ...ports, issuedKeys: new IssuedKeyFile(resolve(folder, file)) }
}

/**
 * Issued keys in a JSON file that only its owner may read. Threads and processes of one machine may share it: a change
 * replaces the file as a whole, under a lock file beside it. @testing
 */
export class IssuedKeyFile implements IssuedKeyStore {
  readonly #path: string

  constructor(path: string) {
    this.#path = path
  }

  async read(known: string | null): Promise<IssuedKeys | null> {
    // Before the content, so that no later change is missed.
    const version = await this.#version()
    return version === known ? null : { version, keys: await this.#keys() }
  }

  add(key: IssuedKey): Promise<boolean> {
    return this.#change((keys) => (keys.some(({ name }) => name === key.name) ? null : [...keys, key]))
  }

  remove(name: string): Promise<boolean> {
    return this.#change((keys) => {
      const left = keys.filter((key) => key.name !== name)
      return left.length === keys.length ? null : left
    })
  }

  async #version(): Promise<string> {
    try {
      return fingerprintOf(await stat(this.#path))
    } catch (error) {
      if (isMissing(error)) return 'none'
      throw error
    }
  }

  async #keys(): Promise<readonly IssuedKey[]> {
    try {
      const stored = JSON.parse(await readFile(this.#path, 'utf8')) as { readonly keys?: unknown }
      return decodeIssuedKeys(stored.keys)
    } catch (error) {
      if (isMissing(error)) return []
      throw error
    }
  }

  /** @param edit returns the new keys; null: nothing changes */
  async #change(edit: (keys: readonly IssuedKey[]) => readonly IssuedKey[] | null): Promise<boolean> {
    await mkdir(dirname(this.#path), { recursive: true })
    const lock = `${this.#path}.lock`
    await takeLock(lock)
    try {
      const changed = edit(await this.#keys())
      if (changed === null) return false
      const next = `${this.#path}.new`
      await writeFile(next, `${JSON.stringify({ format: FORMAT, keys: changed }, null, 2)}\n`, { mode: 0o600 })
      await rename(next, this.#path)
      return true
    } finally {
      await rm(lock, { force: true })
    }
  }
}

async function takeLock(path: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    try {
      await (await open(path, 'wx', 0o600)).close()
      return
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST' || tries >= LOCK_TRIES) throw error
    }
    const held = await stat(path).catch(() => null)
    if (held !== null && Date.now() - held.mtimeMs > LOCK_LAPSE_MS) await rm(path, { force: true })
    else await setTimeout(LOCK_PAUSE_MS)
  }
}

const isMissing = (error: unknown): boolean => (error as NodeJS.ErrnoException).code === 'ENOENT'
