"""Creates the tables of Django 3.2 and a user with each of its password hashers:
python3 djangousers.py URL PASSWORD, where the URL is that of an empty database."""

import sys
from urllib.parse import urlsplit

import django
from django.conf import settings

url, password = urlsplit(sys.argv[1]), sys.argv[2]
hashers = [
    "PBKDF2PasswordHasher",
    "PBKDF2SHA1PasswordHasher",
    "Argon2PasswordHasher",
    "BCryptSHA256PasswordHasher",
    "BCryptPasswordHasher",
    "SHA1PasswordHasher",
    "MD5PasswordHasher",
    "UnsaltedSHA1PasswordHasher",
    "UnsaltedMD5PasswordHasher",
    "CryptPasswordHasher",
]
settings.configure(
    DATABASES={
        "default": {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": url.hostname,
            "PORT": url.port,
            "NAME": url.path[1:],
            "USER": url.username,
            "PASSWORD": url.password,
        }
    },
    INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
    PASSWORD_HASHERS=["django.contrib.auth.hashers." + h for h in hashers],
    DEFAULT_AUTO_FIELD="django.db.models.AutoField",
    USE_TZ=True,
)
django.setup()

from django.contrib.auth.hashers import check_password, get_hasher, make_password
from django.contrib.auth.models import User
from django.core.management import call_command

call_command("migrate", verbosity=0)
for name in hashers:
    algorithm = __import__("django.contrib.auth.hashers", fromlist=[name]).__dict__[name].algorithm
    user = User.objects.create_user(algorithm, algorithm + "@example.com", first_name="Ada \\N", last_name="O'Lovelace")
    user.password = make_password(password, hasher=algorithm)
    user.save()
    if not check_password(password, user.password):
        sys.exit("Django refuses the password of " + algorithm)
User.objects.create_user("unusable", "unusable@example.com")
User.objects.create_user("disabled", "disabled@example.com", password, is_active=False)
