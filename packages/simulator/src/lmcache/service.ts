/** Common part of the fakes: counts requests by path, and can replace answers. */
export class FakeService {
  /** Number of requests by path. */
  readonly requests = new Map<string, number>()
  /** Replaces answers; null: the normal answer. */
  instead: ((request: Request) => Promise<Response | null> | Response | null) | null = null

  protected async overrideOf(request: Request): Promise<Response | null> {
    const { pathname } = new URL(request.url)
    this.requests.set(pathname, (this.requests.get(pathname) ?? 0) + 1)
    return this.instead === null ? null : this.instead(request)
  }

  count(path: string): number {
    return this.requests.get(path) ?? 0
  }
}
