/**
 * Requests to the gateway, and its live views. The admin key is stored in this tab's session and sent in a header,
 * never in a URL.
 */

const KEY = 'firstlight-admin-key'

export const savedKey = (): string | null => sessionStorage.getItem(KEY)

export function saveKey(key: string | null): void {
  if (key === null) sessionStorage.removeItem(KEY)
  else sessionStorage.setItem(KEY, key)
}

/** The gateway rejected a request. The message is the gateway's. */
export class RequestError extends Error {
  readonly status: number

  constructor(status: number, message: string) {
    super(message)
    this.status = status
  }
}

/** Sends a request. `path` is relative to the gateway's root, including a URL prefix. Throws Refused. */
export async function call(path: string, init: RequestInit = {}): Promise<Response> {
  const key = savedKey()
  const headers = new Headers(init.headers)
  if (key !== null) headers.set('authorization', `Bearer ${key}`)
  const response = await fetch(path, { ...init, headers, cache: 'no-store' })
  if (response.ok) return response
  throw new RequestError(response.status, await messageOf(response))
}

/** The gateway's message about a failed request. */
export async function messageOf(response: Response): Promise<string> {
  try {
    const { error } = (await response.json()) as { readonly error: { readonly message: string } }
    return error.message
  } catch {
    return `The gateway answered ${response.status}.`
  }
}
