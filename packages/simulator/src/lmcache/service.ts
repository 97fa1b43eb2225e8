/** Common part of the fakes: counts requests by path, and can replace answers. */
export class FakeService {
  /** Number of requests by path. */
  readonly asked = new Map<string, number>()
  /** Replaces answers; null: the normal answer. */
  instead: ((request: Request) => Promise<Response | null> | Response | null) | null = null

  protected async overrideOf(request: Request): Promise<Response | null> {
    const { pathname } = new URL(request.url)
    this.asked.set(pathname, (this.asked.get(pathname) ?? 0) + 1)
    return this.instead === null ? null : this.instead(request)
  }

  count(path: string): number {
    return this.asked.get(path) ?? 0
  }
}
