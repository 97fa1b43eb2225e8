export { ClusterObject } from '../durable/cluster.ts'

export default {
  fetch: () => new Response('not wired yet', { status: 503 }),
} satisfies ExportedHandler
