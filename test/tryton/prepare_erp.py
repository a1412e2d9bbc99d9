"""Creates the database that the tests copy: `python3 prepare_erp.py TRYTOND_ADMIN FINISHED`.

TRYTOND_DATABASE__URI names the server. For `sqlite://`, FINISHED is a file, else the name of a database on that server.
If FINISHED exists, nothing is done. The database gets this name only when it is complete, so that an interrupted run
leaves nothing that looks finished. Two processes at the same time create it once: for a file, the caller holds a lock; for
a database, this script takes a lock.
"""
import os
import subprocess
import sys
import tempfile
import threading
import urllib.parse
import warnings

# Tryton's password library uses a module that Python is going to drop. The warning does not concern the tests.
warnings.filterwarnings('ignore', category=DeprecationWarning)

MODULES = ['ir', 'purchase_request_quotation', 'purchase_requisition']


def prepare_file(admin, finished):
    if os.path.exists(finished):
        return
    with tempfile.TemporaryDirectory(dir=os.path.dirname(finished), prefix='unfinished-') as folder:
        unfinished = os.path.join(folder, 'erp.sqlite')
        open(unfinished, 'x').close()
        fill(admin, folder, 'erp')
        os.rename(unfinished, finished)


def prepare_database(admin, uri, finished):
    import psycopg2
    connection = psycopg2.connect(uri_of(uri, 'postgres'))
    connection.autocommit = True
    with connection.cursor() as cursor, tempfile.TemporaryDirectory() as folder:
        cursor.execute('select pg_advisory_lock(hashtextextended(%s, 0))', [finished])
        cursor.execute('select 1 from pg_database where datname = %s', [finished])
        if cursor.fetchone():
            return
        unfinished = finished + '_new'
        cursor.execute(f'drop database if exists "{unfinished}" with (force)')
        cursor.execute(f'create database "{unfinished}" template template0')
        ended = threading.Event()
        analyzing = threading.Thread(target=analyze_catalogs, args=[uri_of(uri, unfinished), ended])
        analyzing.start()
        try:
            fill(admin, folder, unfinished)
        finally:
            ended.set()
            analyzing.join()
        cursor.execute(f'alter database "{unfinished}" rename to "{finished}"')


def uri_of(uri, database):
    return urllib.parse.urlparse(uri)._replace(path=database).geturl()


def analyze_catalogs(uri, ended):
    """Keeps the statistics of PostgreSQL's catalogs fresh until `ended` is set.

    Tryton looks up columns and keys of its tables thousands of times while it creates them. PostgreSQL itself analyzes
    the catalogs only once a minute; with outdated statistics, these look-ups take twice as long.
    """
    import psycopg2
    connection = psycopg2.connect(uri)
    connection.autocommit = True
    with connection.cursor() as cursor:
        while not ended.wait(2):
            for catalog in ['pg_class', 'pg_attribute', 'pg_attrdef', 'pg_constraint', 'pg_depend', 'pg_index']:
                cursor.execute(f'analyze pg_catalog.{catalog}')
    connection.close()


def fill(admin, folder, database):
    """Runs in child processes: when they have ended, no connection to the database is open any more."""
    password = os.path.join(folder, 'password')
    with open(password, 'w') as file:
        file.write('admin-password')
    seed = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'seed_erp.py')
    for command in [
            [admin, '-d', database, '-u', *MODULES, '--activate-dependencies', '--email', 'admin@buyer.example'],
            [seed, database],
            ]:
        subprocess.run([sys.executable, '-s', '-W', 'ignore::DeprecationWarning', *command], check=True,
            env={**os.environ, 'TRYTOND_DATABASE__PATH': folder, 'TRYTONPASSFILE': password})


if __name__ == '__main__':
    uri = os.environ['TRYTOND_DATABASE__URI']
    if uri.startswith('sqlite'):
        prepare_file(*sys.argv[1:])
    else:
        prepare_database(sys.argv[1], uri, sys.argv[2])
