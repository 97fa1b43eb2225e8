import type { IssuedKey, IssuedKeys } from '../core/keys/issued-key.ts'

/** Where the keys are stored that operators make at run time. Every method rejects if the store is unreachable. */
export interface IssuedKeyStore {
  /**
   * Reads all keys.
   * @param known version that the caller has; null: none
   * @returns null: the version is still `known`
   */
  read(known: string | null): Promise<IssuedKeys | null>
  /** Stores a key before it resolves. false: there is one with this name. */
  add(key: IssuedKey): Promise<boolean>
  /** Removes a key before it resolves. false: there is none with this name. */
  remove(name: string): Promise<boolean>
}
