/** A Kubernetes API server in memory whose pods are scripted engines. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { FakeEngine } from '../../../test/kit/fake-engine.ts'
import { FakeApi } from '../../../test/node/kubernetes/fake-api.ts'

export class FieldCluster {
  readonly env: Readonly<Record<string, string>>
  readonly #api: FakeApi
  readonly #folder: string

  private constructor(api: FakeApi, folder: string) {
    this.#api = api
    this.#folder = folder
    this.env = { KUBECONFIG: join(folder, 'kubeconfig') }
  }

  static async open(engines: readonly (readonly [letter: string, engine: FakeEngine])[]): Promise<FieldCluster> {
    const api = new FakeApi()
    const folder = mkdtempSync(join(tmpdir(), 'firstlight-field-'))
    const kubeconfig = {
      'current-context': 'x',
      contexts: [{ name: 'x', context: { cluster: 'x', user: 'x' } }],
      clusters: [{ name: 'x', cluster: { server: await api.listen() } }],
      users: [{ name: 'x', user: { token: 'secret' } }],
    }
    writeFileSync(join(folder, 'kubeconfig'), JSON.stringify(kubeconfig))
    for (const [letter, { port }] of engines) api.set({ name: letter, address: '127.0.0.1', port })
    return new FieldCluster(api, folder)
  }

  async close(): Promise<void> {
    await this.#api.close()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}
