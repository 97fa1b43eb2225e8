import { Failure } from '../../failure.ts'
import type { Authenticator } from './authenticator.ts'
import { bearer, type HeaderReader, keyFailure } from './bearer.ts'
import { KeyStore } from './key-store.ts'

/** Accepts this secret, and whatever the admin API accepts. null: no such secret. `name`: its key in the document. */
export function keyOrAdmin(
  authenticator: Authenticator,
  secret: string | null,
  name: string,
): (headers: HeaderReader) => Promise<void> {
  const keys = new KeyStore(secret === null ? [] : [{ secret, holder: true }])
  return async (headers) => {
    const token = bearer(headers)
    if (token !== null && (await keys.find(token)) !== null) return
    await authenticator.admin(headers).catch((error: unknown) => {
      if (!(error instanceof Failure && error.reason === 'not_configured')) throw error
      if (secret === null)
        throw new Failure(
          'not_configured',
          `Access is disabled. Set ${name} or admin.secret in the configuration and send it as a bearer token.`,
        )
      throw token === null
        ? keyFailure('key_missing', `No key was given. Send ${name} as \`authorization: Bearer <key>\`.`)
        : keyFailure('key_wrong', `Invalid key. It must equal ${name} of the configuration.`)
    })
  }
}
