import { testNodePage } from './node-page.ts'

testNodePage('scale-to-zero.md')
