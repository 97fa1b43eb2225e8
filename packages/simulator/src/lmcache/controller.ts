import { FakeService } from './service.ts'

/** `lmcache_controller`: POST /lookup and /query_instance. @testing */
export class FakeController extends FakeService {
  /** By instance: what it holds of every prompt that begins with these ids. */
  readonly holds = new Map<string, { readonly tokens: readonly number[]; readonly location: string }>()
  /** IP → instance. */
  readonly hosts = new Map<string, string>()

  async fetch(request: Request): Promise<Response> {
    const instead = await this.overrideOf(request)
    if (instead !== null) return instead
    const { pathname } = new URL(request.url)
    if (request.method !== 'POST') return Response.json({ detail: 'Method Not Allowed' }, { status: 405 })
    const body = (await request.json()) as { tokens?: readonly number[]; ip?: string; event_id?: string }
    if (pathname === '/lookup')
      return Response.json({ event_id: 'Lookup1', layout_info: this.#layout(body.tokens ?? []) })
    if (pathname !== '/query_instance') return Response.json({ detail: 'Not Found' }, { status: 404 })
    const instance = this.hosts.get(body.ip ?? '')
    // Its answer model has no null, so an unknown host is a server error.
    if (instance === undefined)
      return Response.json({ detail: '1 validation error for QueryInstResponse' }, { status: 500 })
    return Response.json({ event_id: body.event_id ?? '', res: instance })
  }

  #layout(tokens: readonly number[]): Record<string, readonly [string, number]> {
    const layout: Record<string, readonly [string, number]> = {}
    for (const [instance, { tokens: held, location }] of this.holds) {
      let same = 0
      while (same < held.length && same < tokens.length && held[same] === tokens[same]) same += 1
      if (same > 0) layout[instance] = [location, same]
    }
    return layout
  }
}
