// `npm run image:check`: builds deploy/Containerfile with buildah, without a daemon, and runs the image. Needs root.
// Without access to the registry of the base image, the base is made of Debian (debootstrap) and of node and npm from
// the npm registry. That tests the stages, not the base image.
import { execFileSync, spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const BASE = 'docker.io/library/node:26-slim'
const CERTIFICATES = '/etc/ssl/certs/ca-certificates.crt'
const root = fileURLToPath(new URL('..', import.meta.url))
const folder = mkdtempSync(join(tmpdir(), 'firstlight-image-'))
const store = ['--root', join(folder, 'store'), '--runroot', join(folder, 'run'), '--storage-driver', 'vfs']
const run = (command, ...args) =>
  execFileSync(command, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
const buildah = (...args) => run('buildah', ...store, ...args).trim()
const inside = ['run', '--isolation', 'chroot', '--network', 'host']

function expect(truth, message) {
  if (!truth) throw new Error(message)
  console.log(`ok  ${message}`)
}

function makeBase() {
  console.log(`${BASE} cannot be pulled. Its stand-in is made of Debian and npm's node.`)
  const files = join(folder, 'base')
  run('debootstrap', '--variant=minbase', '--include=ca-certificates,libatomic1', 'bookworm', files)
  cpSync(realpathSync(join(root, 'node_modules/node/bin/node')), join(files, 'usr/local/bin/node'))
  cpSync(CERTIFICATES, join(files, CERTIFICATES))
  const [{ filename }] = JSON.parse(run('npm', 'pack', '--json', '--silent', 'npm@11', '--pack-destination', folder))
  const npm = join(files, 'usr/local/lib/node_modules/npm')
  mkdirSync(npm, { recursive: true })
  run('tar', '-xzf', join(folder, filename), '--strip-components=1', '-C', npm)
  for (const name of ['npm', 'npx'])
    symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, join(files, 'usr/local/bin', name))
  const container = buildah('from', 'scratch')
  buildah('copy', '--quiet', container, files, '/')
  buildah('config', '--env', `NODE_EXTRA_CA_CERTS=${CERTIFICATES}`, container)
  buildah('config', '--env', 'PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin', container)
  buildah('commit', '--quiet', '--rm', container, BASE)
}

function buildImage(commit) {
  if (spawnSync('buildah', [...store, 'pull', '--quiet', BASE], { stdio: 'ignore' }).status !== 0) makeBase()
  // Only what is committed, as in a fresh clone.
  const context = join(folder, 'context')
  run('git', 'clone', '--quiet', root, context)
  const options = ['--isolation', 'chroot', '--network', 'host', '--format', 'docker', '--pull-never']
  const file = join(context, 'deploy/Containerfile')
  const build = ['bud', ...options, '--build-arg', `COMMIT=${commit}`, '-t', 'firstlight', '-f', file, context]
  execFileSync('buildah', [...store, ...build], { stdio: ['ignore', 'ignore', 'inherit'] })
}

const freePort = () =>
  new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address()
      server.close(() => resolve(port))
    })
  })

async function serves(container, entrypoint) {
  const [engine, gateway] = [await freePort(), await freePort()]
  const pool = { model: 'sim', engines: [{ id: 'a', url: `http://127.0.0.1:${engine}` }] }
  const document = { version: 1, listen: `127.0.0.1:${gateway}`, clusters: [{ id: 'main', pools: [pool] }] }
  writeFileSync(join(folder, 'firstlight.yaml'), JSON.stringify(document))
  buildah('copy', '--quiet', container, join(folder, 'firstlight.yaml'), '/config/firstlight.yaml')
  const start = (...args) =>
    spawn('buildah', [...store, ...inside, container, '--', ...entrypoint, ...args], { stdio: 'ignore' })
  const children = [
    start('fleet', '--engines', '1', '--port', String(engine), '--model', 'sim'),
    start('serve', '--config', '/config/firstlight.yaml'),
  ]
  try {
    const body = JSON.stringify({ model: 'sim', messages: [{ role: 'user', content: 'Hello' }], max_tokens: 4 })
    const headers = { 'content-type': 'application/json' }
    for (let tries = 0; ; tries++) {
      const request = fetch(`http://127.0.0.1:${gateway}/v1/chat/completions`, { method: 'POST', headers, body })
      const { status } = await request.catch(() => ({ status: 0 }))
      if (status === 200 || tries === 300) return status === 200 ? gateway : 0
      await new Promise((resolve) => setTimeout(resolve, 100))
    }
  } finally {
    process.on('exit', () => children.forEach((child) => child.kill()))
  }
}

try {
  const commit = run('git', '-C', root, 'rev-parse', 'HEAD').trim()
  buildImage(commit)
  const { config } = JSON.parse(buildah('inspect', '--type', 'image', 'firstlight')).Docker
  expect(config.User === '1000:1000', 'the image does not run as root')
  expect(config.Labels['org.opencontainers.image.revision'] === commit, 'its labels name the commit')
  const container = buildah('from', '--pull-never', 'firstlight')
  const version = buildah(...inside, container, '--', ...config.Entrypoint, '--version')
  expect(version.includes(commit.slice(0, 12)), `firstlight --version: ${version}`)
  const modules = buildah(...inside, container, '--', 'ls', 'node_modules')
  expect(!modules.includes('zeromq'), 'it has no native part')
  const port = await serves(container, config.Entrypoint)
  expect(port > 0, 'a request through the gateway to a simulated engine is answered')
  const [, ...check] = config.Healthcheck.Test.map((word) => word.replace(':8080', `:${port}`))
  const status = (words) => spawnSync('buildah', [...store, ...inside, container, '--', ...words]).status
  expect(status(check) === 0, 'the health check passes')
  expect(status(check.map((word) => word.replace(`:${port}`, ':9'))) === 1, 'the health check fails without a gateway')
} finally {
  process.on('exit', () => rmSync(folder, { recursive: true, force: true }))
}
process.exit(0)
