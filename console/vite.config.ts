import { svelte } from '@sveltejs/vite-plugin-svelte';
import { defineConfig } from 'vite';

// Nothing in the page is inline, as its content security policy wants it.
export default defineConfig({
  plugins: [svelte()],
  build: {
    outDir: 'dist',
    assetsDir: 'assets',
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: 'es2022',
    sourcemap: false,
    // The page to log in is one of its own: it works without the rest, and that without it.
    rollupOptions: { input: ['index.html', 'login.html'] },
  },
});
